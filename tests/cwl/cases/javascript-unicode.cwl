cwlVersion: v1.2
class: CommandLineTool
doc: Text beyond ASCII passes through expressions, arguments and files.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: ['$(inputs.word.toUpperCase())', '$(inputs.word.length)']
inputs: {word: {type: string, default: "λ-Phage größe"}}
stdout: said.txt
outputs: {said: stdout}
