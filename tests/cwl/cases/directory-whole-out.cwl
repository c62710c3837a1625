cwlVersion: v1.2
class: CommandLineTool
doc: Everything that the tool wrote, as one directory with a name of its own.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo 1 >one; echo 2 >two']
inputs: {}
outputs:
  folder: {type: Directory, outputBinding: {glob: ., outputEval: '${ self[0].basename = "everything"; return self; }'}}
