cwlVersion: v1.2
class: CommandLineTool
doc: A file that is given by its content.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: cat
inputs: {file: {type: File, inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
