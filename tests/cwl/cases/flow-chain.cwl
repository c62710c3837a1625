cwlVersion: v1.2
class: Workflow
doc: Two steps, the second with what the first made.
inputs: {file: File}
outputs: {result: {type: File, outputSource: sort/sorted}}
steps:
  shout: {run: tool-shout.cwl, in: {file: file}, out: [loud]}
  sort:
    run:
      class: CommandLineTool
      hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
      baseCommand: [sort, -r]
      inputs: {file: {type: File, inputBinding: {}}}
      stdout: sorted.txt
      outputs: {sorted: stdout}
    in: {file: shout/loud}
    out: [sorted]
