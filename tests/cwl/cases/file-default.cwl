cwlVersion: v1.2
class: CommandLineTool
doc: A file and a directory that stand beside the tool are the defaults.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cat "$0" "$1/a.txt"']
inputs:
  file: {type: File, default: {class: File, location: ../data/numbers.txt}, inputBinding: {position: 1}}
  folder: {type: Directory, default: {class: Directory, location: ../data/tree}, inputBinding: {position: 2}}
stdout: said.txt
outputs: {said: stdout}
