cwlVersion: v1.2
class: CommandLineTool
doc: Standard input from a file, named by an expression.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sort, -n]
stdin: $(inputs.file.path)
inputs: {file: File}
outputs: {sorted: stdout}
stdout: sorted.txt
