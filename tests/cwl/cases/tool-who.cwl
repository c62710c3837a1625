cwlVersion: v1.2
class: CommandLineTool
doc: The value of a variable.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'printf %s "$WHO"']
inputs: {}
stdout: who.txt
outputs: {who: {type: string, outputBinding: {glob: who.txt, loadContents: true, outputEval: '$(self[0].contents)'}}}
