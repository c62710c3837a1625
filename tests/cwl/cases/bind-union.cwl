cwlVersion: v1.2
class: CommandLineTool
doc: The binding of a union's member is that of the type that was given.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n', begin]
inputs:
  limit:
    - {type: array, items: int, inputBinding: {prefix: --each}}
    - int
    - string
  absent: {type: 'string?', inputBinding: {prefix: --absent}}
outputs: {said: stdout}
stdout: said.txt
