cwlVersion: v1.2
class: CommandLineTool
doc: What was asked for is what the tool is told, computed from its input.
requirements:
  InlineJavascriptRequirement: {}
  ResourceRequirement: {coresMin: 1, ramMin: '$(inputs.unit * 3)', tmpdirMin: 11, outdirMin: 12}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: ['$(runtime.cores)', '$(runtime.ram)', '$(runtime.tmpdirSize >= 11 && runtime.outdirSize >= 12 ? "room" : "no room")']
inputs: {unit: {type: int, default: 100}}
stdout: said.txt
outputs: {said: stdout}
