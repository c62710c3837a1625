cwlVersion: v1.2
class: CommandLineTool
doc: Files of one name from different places do not hide each other.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: cat
inputs: {files: {type: 'File[]', inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
