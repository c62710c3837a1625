cwlVersion: v1.2
class: Workflow
doc: Inputs of a step from constants, defaults, expressions over other inputs, and the content of a file.
requirements: {InlineJavascriptRequirement: {}, StepInputExpressionRequirement: {}}
inputs: {file: File, number: {type: int, default: 4}}
outputs: {said: {type: File, outputSource: say/said}}
steps:
  say:
    run: tool-say.cwl
    in:
      number: number
      first: {source: file, loadContents: true, valueFrom: '$(self.contents.split("\n")[0])'}
      second: {default: unused, valueFrom: 'times $(inputs.number * 2)'}
      name: {default: named.txt}
    out: [said]
