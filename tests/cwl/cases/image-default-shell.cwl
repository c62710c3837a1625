cwlVersion: v1.2
class: CommandLineTool
doc: A tool that names no image has bash, rev, ps, which and what else a Debian system has.
baseCommand: [bash, -c]
arguments:
- |
  rev <<< stressed
  ps -o comm= -p $$
  for one in which git curl; do which "$one" > found && [ -s found ] && echo "$one"; done
  rm found
  . /etc/os-release && [ -n "$ID" ] && echo release
inputs: {}
stdout: said.txt
outputs: {said: {type: stdout}}
