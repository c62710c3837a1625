cwlVersion: v1.2
class: CommandLineTool
doc: A directory with another in it as output.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'mkdir -p out/deeper; echo x >out/x.txt; echo y >out/deeper/y.txt']
inputs: {}
outputs: {folder: {type: Directory, outputBinding: {glob: out}}}
