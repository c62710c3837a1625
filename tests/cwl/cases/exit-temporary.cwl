cwlVersion: v1.2
class: CommandLineTool
doc: A temporary failure is a failure for who asked.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'exit 75']
temporaryFailCodes: [75]
inputs: {}
outputs: {}
