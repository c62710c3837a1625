cwlVersion: v1.2
class: CommandLineTool
doc: Upper case of a file.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [tr, a-z, A-Z]
stdin: $(inputs.file.path)
inputs: {file: File, name: {type: string, default: shout.txt}}
stdout: $(inputs.name)
outputs: {loud: stdout}
