cwlVersion: v1.2
class: CommandLineTool
doc: One symbol of an enumeration, and an array of them.
requirements: {SchemaDefRequirement: {types: [{name: Mode, type: enum, symbols: [r, w, x]}]}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
inputs:
  one: {type: {type: enum, symbols: [fast, exact]}, default: exact, inputBinding: {position: 1}}
  many: {type: {type: array, items: Mode}, default: [r, x], inputBinding: {position: 2, prefix: -m}}
outputs: {said: stdout}
stdout: said.txt
