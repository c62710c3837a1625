cwlVersion: v1.2
class: CommandLineTool
doc: A file of another format is refused.
$namespaces: {edam: http://edamontology.org/}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: echo
inputs: {ref: {type: File, format: edam:format_1930}}
outputs: {}
