cwlVersion: v1.2
class: CommandLineTool
doc: A tool that runs longer than it may is a failure.
requirements: {ToolTimeLimit: {timelimit: 2}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sleep, '60']
inputs: {}
outputs: {}
