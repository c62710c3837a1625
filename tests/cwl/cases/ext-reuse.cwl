cwlVersion: v1.2
class: CommandLineTool
doc: Reuse switched off, the output in Keep while the tool runs, a cache of a given size, and the API at hand.
$namespaces: {arv: "http://arvados.org/cwl#"}
hints:
  DockerRequirement: {dockerPull: "cwl-cases:1"}
  arv:ReuseRequirement: {enableReuse: false}
  arv:RuntimeConstraints: {keep_cache: 123, outputDirType: keep_output_dir}
  arv:APIRequirement: {}
  arv:OutputStorageClass: {intermediateStorageClass: default, finalStorageClass: default}
baseCommand: [sh, -c, 'mkdir d; echo one >d/1.txt; echo two >2.txt']
inputs: {}
outputs:
  deep: {type: File, outputBinding: {glob: d/1.txt}}
  flat: {type: File, outputBinding: {glob: 2.txt}}
