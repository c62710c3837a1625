cwlVersion: v1.2
class: Workflow
doc: The only value of two that is there, for a step's input.
requirements: {InlineJavascriptRequirement: {}, MultipleInputFeatureRequirement: {}}
inputs: {absent: 'string?', present: {type: string, default: here}}
outputs: {said: {type: File, outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    in: {first: {source: [absent, present], pickValue: the_only_non_null}}
    out: [said]
