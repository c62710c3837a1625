cwlVersion: v1.2
class: CommandLineTool
doc: Several patterns, and one that is an expression which gives several.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'for n in a b c; do echo $n >$n.txt; done']
inputs: {names: {type: 'string[]', default: [c, a]}}
outputs:
  listed: {type: 'File[]', outputBinding: {glob: [b.txt, a.txt]}}
  computed: {type: 'File[]', outputBinding: {glob: '$(inputs.names.map(function (n) { return n + ".txt"; }))'}}
