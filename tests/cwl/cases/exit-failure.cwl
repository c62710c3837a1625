cwlVersion: v1.2
class: CommandLineTool
doc: Any other exit code is a failure.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo done; exit 3']
inputs: {}
stdout: said.txt
outputs: {said: stdout}
