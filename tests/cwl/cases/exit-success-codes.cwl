cwlVersion: v1.2
class: CommandLineTool
doc: An exit code that is listed as success is one; the code can be seen in the output's expression.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo done; exit 3']
successCodes: [0, 3]
inputs: {}
stdout: said.txt
outputs:
  said: stdout
  code: {type: int, outputBinding: {outputEval: '$(runtime.exitCode)'}}
