cwlVersion: v1.2
class: CommandLineTool
doc: Types that are named once and used by name.
requirements:
  InlineJavascriptRequirement: {}
  SchemaDefRequirement:
    types:
      - name: Interval
        type: record
        fields: [{name: from, type: int}, {name: to, type: int}]
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: ['$(inputs.where.map(function (i) { return i.from + "-" + i.to; }).join(";"))']
inputs:
  where: {type: {type: array, items: Interval}, default: [{from: 1, to: 5}, {from: 8, to: 9}]}
outputs: {said: stdout}
stdout: said.txt
