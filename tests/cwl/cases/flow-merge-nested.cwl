cwlVersion: v1.2
class: Workflow
doc: Several sources into one list, each an item.
requirements: {MultipleInputFeatureRequirement: {}}
inputs: {one: File, two: File}
outputs: {joined: {type: File, outputSource: join/joined}}
steps:
  shout: {run: tool-shout.cwl, in: {file: one}, out: [loud]}
  join:
    run: tool-join.cwl
    in: {files: {source: [two, shout/loud, one], linkMerge: merge_nested}}
    out: [joined]
