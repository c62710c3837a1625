cwlVersion: v1.2
class: Workflow
doc: Two arrays scattered into an array of arrays.
requirements: {ScatterFeatureRequirement: {}}
inputs: {left: {type: 'string[]', default: [a, b]}, right: {type: 'string[]', default: [x, y, z]}}
outputs:
  said: {type: {type: array, items: {type: array, items: File}}, outputSource: say/said}
steps:
  say:
    run: tool-say.cwl
    scatter: [first, second]
    scatterMethod: nested_crossproduct
    in: {first: left, second: right}
    out: [said]
