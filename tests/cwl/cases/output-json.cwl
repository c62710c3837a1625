cwlVersion: v1.2
class: CommandLineTool
doc: A tool that writes its own output object.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo data >d.txt; printf "%s" "{\"n\": 42, \"words\": [\"a\", \"b\"], \"file\": {\"class\": \"File\", \"path\": \"d.txt\"}}" >cwl.output.json']
inputs: {}
outputs: {n: int, words: 'string[]', file: File}
