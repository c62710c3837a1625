cwlVersion: v1.2
class: CommandLineTool
doc: Standard error into a named file, standard output into another.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo fine; echo trouble >&2']
inputs: {}
stdout: out.txt
stderr: err.txt
outputs: {out: stdout, err: stderr}
