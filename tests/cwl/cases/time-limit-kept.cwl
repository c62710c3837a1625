cwlVersion: v1.2
class: CommandLineTool
doc: A time limit that is not reached, computed from the input.
requirements: {InlineJavascriptRequirement: {}, ToolTimeLimit: {timelimit: '$(inputs.minutes * 60)'}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [echo, in time]
inputs: {minutes: {type: int, default: 2}}
stdout: said.txt
outputs: {said: stdout}
