cwlVersion: v1.2
class: CommandLineTool
doc: One or two words into a file of a given name.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [echo]
inputs:
  first: {type: string, inputBinding: {position: 1}}
  second: {type: 'string?', inputBinding: {position: 2}}
  name: {type: string, default: said.txt}
stdout: $(inputs.name)
outputs: {said: stdout}
