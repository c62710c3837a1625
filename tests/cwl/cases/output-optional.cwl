cwlVersion: v1.2
class: CommandLineTool
doc: An output that may be absent is null, an array of nothing is empty.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: 'true'
inputs: {}
outputs:
  maybe: {type: 'File?', outputBinding: {glob: nothing.txt}}
  none: {type: 'File[]', outputBinding: {glob: "*.none"}}
