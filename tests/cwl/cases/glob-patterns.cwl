cwlVersion: v1.2
class: CommandLineTool
doc: Stars, question marks, classes, and directories in patterns; files come in the order of their names.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'mkdir d; for n in a1 a2 b1 ab1 d/c1 d/c2; do echo $n >$n.txt; done; echo x >other']
inputs: {}
outputs:
  star: {type: 'File[]', outputBinding: {glob: "a*.txt"}}
  mark: {type: 'File[]', outputBinding: {glob: "?1.txt"}}
  set: {type: 'File[]', outputBinding: {glob: "[ab]1.txt"}}
  below: {type: 'File[]', outputBinding: {glob: "d/*.txt"}}
