cwlVersion: v1.2
class: CommandLineTool
doc: Input files in the working directory, one by its own name and one by another.
requirements:
  InitialWorkDirRequirement:
    listing: [$(inputs.first), {entryname: second.txt, entry: $(inputs.second)}]
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [cat, lines.txt, second.txt]
inputs: {first: File, second: File}
stdout: said.txt
outputs: {said: stdout}
