cwlVersion: v1.2
class: CommandLineTool
doc: A parameter of type Any takes a structure.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments: ['$(JSON.stringify(inputs.thing))']
inputs: {thing: {type: Any, default: {a: [1, 2], b: {c: "d"}}}}
outputs: {said: stdout}
stdout: said.txt
