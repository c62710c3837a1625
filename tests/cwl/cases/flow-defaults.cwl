cwlVersion: v1.2
class: Workflow
doc: Defaults of the workflow, of the step and of the tool; a null takes the default below it.
inputs: {first: {type: string, default: workflow}, second: 'string?', name: 'string?'}
outputs: {said: {type: File, outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    in: {first: first, second: {source: second, default: step}, name: name}
    out: [said]
