cwlVersion: v1.2
class: Workflow
doc: A requirement of the workflow reaches its tools, one of the step goes before it.
requirements: {EnvVarRequirement: {envDef: {WHO: workflow}}, InlineJavascriptRequirement: {}}
inputs: {}
outputs: {general: {type: string, outputSource: a/who}, special: {type: string, outputSource: b/who}}
steps:
  a: {run: tool-who.cwl, in: {}, out: [who]}
  b: {run: tool-who.cwl, in: {}, out: [who], requirements: {EnvVarRequirement: {envDef: {WHO: step}}}}
