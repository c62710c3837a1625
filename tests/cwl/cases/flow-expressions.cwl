cwlVersion: v1.2
class: Workflow
doc: Expression tools between and around steps; a file that an expression makes.
requirements: {InlineJavascriptRequirement: {}}
inputs: {count: {type: int, default: 3}}
outputs:
  result: {type: File, outputSource: shout/loud}
  numbers: {type: 'int[]', outputSource: range/numbers}
steps:
  range:
    run:
      class: ExpressionTool
      inputs: {count: int}
      outputs: {numbers: 'int[]', file: File}
      expression: |
        ${
          var numbers = [];
          for (var i = 0; i < inputs.count; i++) numbers.push(i * i);
          return {"numbers": numbers, "file": {"class": "File", "basename": "n.txt", "contents": "n is " + numbers.join(" ") + "\n"}};
        }
    in: {count: count}
    out: [numbers, file]
  shout: {run: tool-shout.cwl, in: {file: range/file}, out: [loud]}
