cwlVersion: v1.2
class: CommandLineTool
doc: Standard output and error without names are files with names of the runner's choice.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo to out; echo to err >&2']
inputs: {}
outputs: {out: stdout, err: stderr}
