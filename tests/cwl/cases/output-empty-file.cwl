cwlVersion: v1.2
class: CommandLineTool
doc: An empty file is a file.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [touch, empty]
inputs: {}
outputs: {file: {type: File, outputBinding: {glob: empty}}}
