cwlVersion: v1.2
class: Workflow
doc: Inputs that are outputs, files and values, without any step.
inputs: {file: File, number: {type: int, default: 5}, folder: Directory}
outputs:
  file: {type: File, outputSource: file}
  number: {type: int, outputSource: number}
  folder: {type: Directory, outputSource: folder}
steps: []
