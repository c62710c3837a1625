cwlVersion: v1.2
class: CommandLineTool
doc: A copy that the tool may change, and the changed file as output.
requirements:
  InitialWorkDirRequirement:
    listing: [{entryname: changed.txt, entry: $(inputs.file), writable: true}]
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo "and more" >>changed.txt']
inputs: {file: File}
outputs: {changed: {type: File, outputBinding: {glob: changed.txt}}}
