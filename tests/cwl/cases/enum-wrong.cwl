cwlVersion: v1.2
class: CommandLineTool
doc: A symbol that is not listed is refused.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: echo
inputs: {one: {type: {type: enum, symbols: [fast, exact]}, inputBinding: {}}}
outputs: {said: stdout}
stdout: said.txt
