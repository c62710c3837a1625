cwlVersion: v1.2
class: CommandLineTool
doc: Prefixes with and without a separator, booleans, numbers.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
inputs:
  yes: {type: boolean, default: true, inputBinding: {position: 1, prefix: --yes}}
  no: {type: boolean, default: false, inputBinding: {position: 2, prefix: --no}}
  glued: {type: int, default: 7, inputBinding: {position: 3, prefix: -n, separate: false}}
  apart: {type: string, default: "two words", inputBinding: {position: 4, prefix: --text}}
  large: {type: long, default: 12345678901, inputBinding: {position: 5, prefix: --large=, separate: false}}
  half: {type: double, default: 0.5, inputBinding: {position: 6}}
outputs: {said: stdout}
stdout: said.txt
