cwlVersion: v1.2
class: Workflow
doc: One step for each file, gathered into one.
requirements: {ScatterFeatureRequirement: {}}
inputs: {files: 'File[]'}
outputs: {joined: {type: File, outputSource: join/joined}, each: {type: 'File[]', outputSource: shout/loud}}
steps:
  shout: {run: tool-shout.cwl, scatter: file, in: {file: files}, out: [loud]}
  join: {run: tool-join.cwl, in: {files: shout/loud}, out: [joined]}
