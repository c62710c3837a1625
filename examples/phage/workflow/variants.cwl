cwlVersion: v1.2
class: Workflow
doc: |
  From reads to variants: each sample is aligned to the genome and sorted; variants are called and statistics made
  from that side by side; one report holds the numbers of all samples.
requirements: {ScatterFeatureRequirement: {}}
inputs:
  genome: {type: File, doc: FASTA}
  samples: {type: 'File[]', doc: "FASTQ, compressed with gzip"}
outputs:
  report: {type: File, outputSource: summarise/report}
  calls: {type: 'File[]', outputSource: call/variants}
steps:
  align: {run: align.cwl, scatter: reads, in: {genome: genome, reads: samples}, out: [alignment]}
  sort: {run: sort.cwl, scatter: alignment, in: {alignment: align/alignment}, out: [sorted]}
  call: {run: call.cwl, scatter: sorted, in: {genome: genome, sorted: sort/sorted}, out: [variants]}
  statistics: {run: statistics.cwl, scatter: sorted, in: {sorted: sort/sorted}, out: [statistics]}
  summarise:
    run: report.cwl
    in: {statistics: statistics/statistics, variants: call/variants}
    out: [report]
