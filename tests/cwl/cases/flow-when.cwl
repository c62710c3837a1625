cwlVersion: v1.2
class: Workflow
doc: Steps that run on a condition; what did not run is null, and a value is picked.
requirements: {InlineJavascriptRequirement: {}, MultipleInputFeatureRequirement: {}}
inputs: {loud: {type: boolean, default: true}, word: {type: string, default: w}}
outputs:
  yes: {type: 'File?', outputSource: yes/said}
  no: {type: 'File?', outputSource: no/said}
  picked: {type: File, outputSource: [no/said, yes/said], pickValue: first_non_null}
steps:
  yes:
    run: tool-say.cwl
    when: $(inputs.loud)
    in: {loud: loud, first: word, name: {default: yes.txt}}
    out: [said]
  no:
    run: tool-say.cwl
    when: $(!inputs.loud)
    in: {loud: loud, first: word, name: {default: no.txt}}
    out: [said]
