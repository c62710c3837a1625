cwlVersion: v1.2
class: CommandLineTool
doc: Files that are written before the tool starts - text, an expression, an object as JSON, below a directory.
requirements:
  InlineJavascriptRequirement: {}
  InitialWorkDirRequirement:
    listing:
      - {entryname: plain.txt, entry: "just text\n"}
      - {entryname: '$(inputs.word).txt', entry: 'the word is $(inputs.word)'}
      - {entryname: object.json, entry: '$({"n": [1, 2], "word": inputs.word})'}
      - {entryname: below/it.txt, entry: deeper}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cat plain.txt w.txt; echo; cat object.json; echo; cat below/it.txt']
inputs: {word: {type: string, default: w}}
stdout: said.txt
outputs: {said: stdout}
