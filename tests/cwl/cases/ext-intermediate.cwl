cwlVersion: v1.2
class: Workflow
doc: What a step made is trashed a while later, what the workflow made is kept.
$namespaces: {arv: "http://arvados.org/cwl#"}
inputs: {file: File}
outputs: {loud: {type: File, outputSource: second/loud}}
steps:
  first: {run: tool-shout.cwl, in: {file: file}, out: [loud], hints: {arv:IntermediateOutput: {outputTTL: 3600}}}
  second: {run: tool-shout.cwl, in: {file: first/loud}, out: [loud], hints: {arv:IntermediateOutput: {outputTTL: 3600}}}
