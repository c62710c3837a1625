cwlVersion: v1.2
class: CommandLineTool
doc: A link to a file that is neither in the output directory nor in an input is a failure.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'echo data > "$TMPDIR/data"; ln -s "$TMPDIR/data" result']
inputs: {}
outputs:
  result: {type: File, outputBinding: {glob: result}}
