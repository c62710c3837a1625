cwlVersion: v1.2
class: Workflow
doc: A condition for each item of a scatter; nulls are dropped from the list.
requirements: {InlineJavascriptRequirement: {}, ScatterFeatureRequirement: {}}
inputs: {words: {type: 'string[]', default: [a, bb, ccc, d]}}
outputs: {short: {type: 'File[]', outputSource: say/said, pickValue: all_non_null}}
steps:
  say:
    run: tool-say.cwl
    scatter: first
    when: $(inputs.first.length == 1)
    in: {first: words}
    out: [said]
