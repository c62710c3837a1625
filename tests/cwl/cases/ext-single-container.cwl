cwlVersion: v1.2
class: Workflow
doc: A workflow whose steps run in one container.
$namespaces: {arv: "http://arvados.org/cwl#"}
requirements: {SubworkflowFeatureRequirement: {}}
inputs: {file: File}
outputs: {result: {type: File, outputSource: inner/result}}
steps:
  inner:
    run: flow-chain.cwl
    hints: {arv:RunInSingleContainer: {}}
    in: {file: file}
    out: [result]
