cwlVersion: v1.2
class: CommandLineTool
doc: Sort an alignment by position, and compress it.
hints:
  DockerRequirement: {dockerPull: "phage-tools:1"}
  ResourceRequirement: {coresMin: 1, ramMin: 400}
baseCommand: [samtools, sort, --no-PG, -m, 200M]
inputs: {alignment: {type: File, inputBinding: {}}}
arguments: [-o, $(inputs.alignment.nameroot).bam]
outputs:
  sorted: {type: File, outputBinding: {glob: "*.bam"}}
