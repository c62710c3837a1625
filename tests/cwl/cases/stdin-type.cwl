cwlVersion: v1.2
class: CommandLineTool
doc: The shortcut type of an input that is standard input.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [wc, -l]
inputs: {file: stdin}
outputs: {count: stdout}
stdout: count.txt
