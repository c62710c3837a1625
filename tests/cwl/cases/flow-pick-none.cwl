cwlVersion: v1.2
class: Workflow
doc: No value where one must be is a failure.
requirements: {InlineJavascriptRequirement: {}, MultipleInputFeatureRequirement: {}}
inputs: {a: 'string?', b: 'string?'}
outputs: {said: {type: File, outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    in: {first: {source: [a, b], pickValue: first_non_null}}
    out: [said]
