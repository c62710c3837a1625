cwlVersion: v1.2
class: Workflow
doc: Two arrays scattered by flat_crossproduct.
requirements: {ScatterFeatureRequirement: {}}
inputs: {left: {type: 'string[]', default: [a, b]}, right: {type: 'string[]', default: [x, y]}}
outputs: {said: {type: 'File[]', outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    scatter: [first, second]
    scatterMethod: flat_crossproduct
    in: {first: left, second: right}
    out: [said]
