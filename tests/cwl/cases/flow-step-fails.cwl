cwlVersion: v1.2
class: Workflow
doc: A step that fails makes the workflow fail, and what depends on it does not run.
inputs: {}
outputs: {said: {type: File, outputSource: shout/loud}}
steps:
  fail: {run: exit-failure.cwl, in: {}, out: [said]}
  shout: {run: tool-shout.cwl, in: {file: fail/said}, out: [loud]}
