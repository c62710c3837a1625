cwlVersion: v1.2
class: CommandLineTool
doc: Arrays joined, repeated, and with a prefix for each item; an empty one adds nothing.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
inputs:
  joined: {type: 'int[]', default: [1, 2, 3], inputBinding: {position: 1, prefix: -j, itemSeparator: ","}}
  listed: {type: 'string[]', default: [x, y], inputBinding: {position: 2, prefix: --list}}
  each:
    type: {type: array, items: string, inputBinding: {prefix: -e, separate: false}}
    default: [p, q]
    inputBinding: {position: 3}
  none: {type: 'string[]', default: [], inputBinding: {position: 4, prefix: --none}}
outputs: {said: stdout}
stdout: said.txt
