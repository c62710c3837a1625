cwlVersion: v1.2
class: CommandLineTool
doc: The fields of a record bind by their own positions.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
inputs:
  sample:
    type:
      type: record
      fields:
        label: {type: string, inputBinding: {prefix: --label, position: 2}}
        lane: {type: int, inputBinding: {prefix: --lane, position: 1}}
        note: {type: 'string?', inputBinding: {prefix: --note}}
    default: {label: lambda, lane: 4}
    inputBinding: {position: 1}
outputs: {said: stdout}
stdout: said.txt
