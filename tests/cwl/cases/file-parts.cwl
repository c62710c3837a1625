cwlVersion: v1.2
class: CommandLineTool
doc: What expressions know of a file.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: [$(inputs.file.basename), $(inputs.file.nameroot), $(inputs.file.nameext), $(inputs.file.size), '$(inputs.file.dirname + "/" + inputs.file.basename == inputs.file.path ? "same" : "different")']
inputs: {file: File}
stdout: said.txt
outputs: {said: stdout}
