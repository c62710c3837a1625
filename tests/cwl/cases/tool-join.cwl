cwlVersion: v1.2
class: CommandLineTool
doc: Files, one after the other.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: cat
inputs: {files: {type: 'File[]', inputBinding: {}}}
stdout: joined.txt
outputs: {joined: stdout}
