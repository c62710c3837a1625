cwlVersion: v1.2
class: CommandLineTool
doc: An output that must be there and is not is a failure.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: 'true'
inputs: {}
outputs: {file: {type: File, outputBinding: {glob: nothing.txt}}}
