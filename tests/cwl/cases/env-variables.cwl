cwlVersion: v1.2
class: CommandLineTool
doc: Variables of the environment, one of them an expression.
requirements:
  EnvVarRequirement: {envDef: {PLAIN: "as it is", FROM_INPUT: '$(inputs.word)-$(inputs.number)'}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo "$PLAIN"; echo "$FROM_INPUT"']
inputs: {word: {type: string, default: w}, number: {type: int, default: 5}}
stdout: said.txt
outputs: {said: stdout}
