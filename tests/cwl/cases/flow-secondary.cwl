cwlVersion: v1.2
class: Workflow
doc: Files that belong together stay so from the job through two steps to the output.
inputs: {ref: {type: File, secondaryFiles: [.fai, ^.dict]}}
outputs: {ref: {type: File, secondaryFiles: [.fai], outputSource: copy/copy}, said: {type: File, outputSource: list/said}}
steps:
  copy:
    run:
      class: CommandLineTool
      hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
      baseCommand: [sh, -c, 'cp "$0" copy.fa; cp "$0.fai" copy.fa.fai']
      inputs: {ref: {type: File, secondaryFiles: [.fai, ^.dict], inputBinding: {}}}
      outputs: {copy: {type: File, secondaryFiles: [.fai], outputBinding: {glob: copy.fa}}}
    in: {ref: ref}
    out: [copy]
  list:
    run:
      class: CommandLineTool
      hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
      baseCommand: [sh, -c, 'cd "$(dirname "$0")"; ls copy*']
      inputs: {ref: {type: File, secondaryFiles: [.fai], inputBinding: {}}}
      stdout: said.txt
      outputs: {said: stdout}
    in: {ref: copy/copy}
    out: [said]
