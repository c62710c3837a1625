cwlVersion: v1.2
class: CommandLineTool
doc: A library of functions, a function body, and text between expressions.
requirements:
  InlineJavascriptRequirement:
    expressionLib:
      - "function reverse(text) { return text.split('').reverse().join(''); }"
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments:
  - '$(reverse(inputs.word))'
  - '${ var sum = 0; for (var i = 1; i <= inputs.number; i++) sum += i; return sum; }'
  - 'from $(inputs.word) to $(inputs.word.length)'
  - '\$(not an expression)'
inputs: {word: {type: string, default: phage}, number: {type: int, default: 10}}
stdout: said.txt
outputs: {said: stdout}
