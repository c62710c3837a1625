cwlVersion: v1.2
class: CommandLineTool
doc: An output with the files that belong to it.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo data >out.bam; echo index >out.bam.bai; echo names >out.dict']
inputs: {}
outputs: {reads: {type: File, outputBinding: {glob: out.bam}, secondaryFiles: [.bai, ^.dict, .none?]}}
