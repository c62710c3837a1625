cwlVersion: v1.2
class: Workflow
doc: A directory from one step to the next and out.
inputs: {}
outputs: {folder: {type: Directory, outputSource: make/folder}, said: {type: File, outputSource: list/said}}
steps:
  make: {run: directory-out.cwl, in: {}, out: [folder]}
  list: {run: directory-in.cwl, in: {folder: make/folder}, out: [said]}
