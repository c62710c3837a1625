cwlVersion: v1.2
class: Workflow
doc: Nothing to scatter over gives nothing.
requirements: {ScatterFeatureRequirement: {}}
inputs: {words: {type: 'string[]', default: []}}
outputs: {said: {type: 'File[]', outputSource: say/said}}
steps:
  say: {run: tool-say.cwl, scatter: first, in: {first: words}, out: [said]}
