cwlVersion: v1.2
class: Workflow
doc: A workflow in a workflow, scattered; one in a file and one in place.
requirements: {ScatterFeatureRequirement: {}, SubworkflowFeatureRequirement: {}}
inputs: {files: 'File[]'}
outputs: {joined: {type: File, outputSource: again/joined}}
steps:
  inner: {run: flow-chain.cwl, scatter: file, in: {file: files}, out: [result]}
  again:
    run:
      class: Workflow
      inputs: {parts: 'File[]'}
      outputs: {joined: {type: File, outputSource: join/joined}}
      steps:
        join: {run: tool-join.cwl, in: {files: parts}, out: [joined]}
    in: {parts: inner/result}
    out: [joined]
