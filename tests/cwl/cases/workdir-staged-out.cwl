cwlVersion: v1.2
class: CommandLineTool
doc: A file that was put there, and not touched, is an output like any other.
requirements: {InitialWorkDirRequirement: {listing: [{entryname: kept.txt, entry: $(inputs.file)}]}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: 'true'
inputs: {file: File}
outputs: {kept: {type: File, outputBinding: {glob: kept.txt}}}
