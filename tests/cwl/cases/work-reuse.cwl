cwlVersion: v1.2
class: CommandLineTool
doc: Reuse is switched off by an expression; the result is the same.
requirements: {InlineJavascriptRequirement: {}, WorkReuse: {enableReuse: '$(inputs.again)'}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [echo, once more]
inputs: {again: {type: boolean, default: false}}
stdout: said.txt
outputs: {said: stdout}
