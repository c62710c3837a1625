cwlVersion: v1.2
class: CommandLineTool
doc: A record of a file and a number as output.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo a >a.txt; echo b >b.txt']
inputs: {}
outputs:
  both:
    type:
      type: record
      fields:
        first: {type: File, outputBinding: {glob: a.txt}}
        second: {type: File, outputBinding: {glob: b.txt}}
        number: {type: int, outputBinding: {outputEval: '$(2 + 3)'}}
