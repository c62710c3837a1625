cwlVersion: v1.2
class: CommandLineTool
doc: HOME is the output directory, TMPDIR the temporary one, and both can be written.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand:
  - sh
  - -ec
  - 'test "$HOME" = "$0"; test "$TMPDIR" = "$1"; touch "$HOME/h" "$TMPDIR/t"; echo fine'
arguments: ['$(runtime.outdir)', '$(runtime.tmpdir)']
inputs: {}
stdout: said.txt
outputs: {said: stdout}
