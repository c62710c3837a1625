cwlVersion: v1.2
class: Workflow
doc: Lists and single files into one flat list.
requirements: {MultipleInputFeatureRequirement: {}}
inputs: {many: 'File[]', one: File}
outputs: {joined: {type: File, outputSource: join/joined}}
steps:
  join:
    run: tool-join.cwl
    in: {files: {source: [many, one], linkMerge: merge_flattened}}
    out: [joined]
