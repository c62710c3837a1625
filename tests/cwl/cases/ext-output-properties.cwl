cwlVersion: v1.2
class: CommandLineTool
doc: Properties of the output's collection, one of them computed.
$namespaces: {arv: "http://arvados.org/cwl#"}
hints:
  DockerRequirement: {dockerPull: "cwl-cases:1"}
  arv:OutputCollectionProperties: {outputProperties: {species: phage, word: $(inputs.word)}}
  arv:ProcessProperties: {processProperties: {purpose: $(inputs.word)}}
baseCommand: echo
inputs: {word: {type: string, default: lambda, inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
