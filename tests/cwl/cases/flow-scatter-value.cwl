cwlVersion: v1.2
class: Workflow
doc: Each scattered value goes through an expression, which sees the other inputs of its own job.
requirements: {ScatterFeatureRequirement: {}, StepInputExpressionRequirement: {}, InlineJavascriptRequirement: {}}
inputs: {words: {type: 'string[]', default: [a, b]}}
outputs: {said: {type: 'File[]', outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    scatter: first
    in:
      first: {source: words, valueFrom: '$(self + self)'}
      name: {valueFrom: '$(inputs.first).txt'}
    out: [said]
