cwlVersion: v1.2
class: CommandLineTool
doc: Positions order arguments and inputs; equal positions are ordered by name.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: [{position: 2, valueFrom: middle}, {position: -1, valueFrom: first}]
inputs:
  b: {type: string, default: beta, inputBinding: {position: 3}}
  a: {type: string, default: alpha, inputBinding: {position: 3}}
  c: {type: string, default: gamma, inputBinding: {position: 1}}
outputs: {said: stdout}
stdout: said.txt
