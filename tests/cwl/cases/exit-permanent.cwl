cwlVersion: v1.2
class: CommandLineTool
doc: Zero may be listed as a failure.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo done']
permanentFailCodes: [0]
inputs: {}
stdout: said.txt
outputs: {said: stdout}
