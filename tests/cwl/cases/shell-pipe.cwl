cwlVersion: v1.2
class: CommandLineTool
doc: With a shell, unquoted arguments are its syntax and quoted ones are not.
requirements: {ShellCommandRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
arguments:
  - echo
  - "a|b > c"
  - {valueFrom: "|", shellQuote: false}
  - tr
  - ab
  - AB
inputs: {}
stdout: said.txt
outputs: {said: stdout}
