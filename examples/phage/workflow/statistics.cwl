cwlVersion: v1.2
class: CommandLineTool
doc: Count the aligned reads of one sample and how much of the genome they cover.
hints:
  DockerRequirement: {dockerPull: "phage-tools:1"}
  ResourceRequirement: {coresMin: 1, ramMin: 400}
baseCommand: [samtools, coverage]
inputs: {sorted: {type: File, inputBinding: {}}}
stdout: $(inputs.sorted.nameroot).txt
outputs: {statistics: stdout}
