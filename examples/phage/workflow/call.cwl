cwlVersion: v1.2
class: CommandLineTool
doc: Call variants of one sample.
hints:
  DockerRequirement: {dockerPull: "phage-tools:1"}
  ResourceRequirement: {coresMin: 1, ramMin: 400}
requirements:
  # bcftools writes an index beside the genome.
  InitialWorkDirRequirement: {listing: [{entryname: genome.fa, entry: $(inputs.genome), writable: true}]}
baseCommand:
  - sh
  - -ec
  - |
    bcftools mpileup --no-version -f genome.fa "$0" | bcftools call --no-version -mv -o "$1.vcf"
inputs:
  genome: File
  sorted: {type: File, inputBinding: {position: 1}}
arguments: [{position: 2, valueFrom: $(inputs.sorted.nameroot)}]
outputs:
  variants: {type: File, outputBinding: {glob: "*.vcf"}}
