cwlVersion: v1.2
class: CommandLineTool
doc: The content of a small file is read for the expression.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: ['$(inputs.file.contents.split("\n")[1])']
inputs: {file: {type: File, loadContents: true}}
stdout: said.txt
outputs: {said: stdout}
