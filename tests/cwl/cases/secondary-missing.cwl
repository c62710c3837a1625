cwlVersion: v1.2
class: CommandLineTool
doc: A file that must come along and is not there is refused.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: echo
inputs: {ref: {type: File, secondaryFiles: [.nosuch]}}
outputs: {}
