cwlVersion: v1.2
class: CommandLineTool
doc: Align the reads of one sample; the alignment is named after its file.
hints:
  DockerRequirement: {dockerPull: "phage-tools:1"}
  ResourceRequirement: {coresMin: 1, ramMin: 400}
requirements: {InlineJavascriptRequirement: {}}
baseCommand:
  - sh
  - -ec
  - |
    bowtie2-build -q "$0" "$2/genome"
    bowtie2 -x "$2/genome" -U "$1" -S "$3.sam" --no-unal
inputs:
  genome: {type: File, inputBinding: {position: 1}}
  reads: {type: File, inputBinding: {position: 2}}
arguments:
  - {position: 3, valueFrom: $(runtime.tmpdir)}
  - {position: 4, valueFrom: '$(inputs.reads.basename.split(".")[0])'}
outputs:
  alignment: {type: File, outputBinding: {glob: "*.sam"}}
