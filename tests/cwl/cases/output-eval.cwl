cwlVersion: v1.2
class: CommandLineTool
doc: Values that are made from the content of what the tool wrote.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [wc, -l]
stdin: $(inputs.file.path)
stdout: count.txt
inputs: {file: File}
outputs:
  count: {type: int, outputBinding: {glob: count.txt, loadContents: true, outputEval: '$(parseInt(self[0].contents))'}}
  twice: {type: 'int[]', outputBinding: {glob: count.txt, loadContents: true, outputEval: '${ var n = parseInt(self[0].contents); return [n, 2 * n]; }'}}
