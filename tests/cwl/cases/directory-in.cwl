cwlVersion: v1.2
class: CommandLineTool
doc: A whole directory as input.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cd "$0"; find -L . -type f | sort']
inputs: {folder: {type: Directory, inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
