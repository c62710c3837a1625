cwlVersion: v1.2
class: CommandLineTool
doc: A file in the working directory keeps the files that belong to it.
requirements: {InitialWorkDirRequirement: {listing: [$(inputs.ref)]}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'ls ref*; cat ref.fa.fai']
inputs: {ref: {type: File, secondaryFiles: [.fai, ^.dict]}}
stdout: said.txt
outputs:
  said: stdout
  ref: {type: File, secondaryFiles: [.fai], outputBinding: {glob: ref.fa}}
