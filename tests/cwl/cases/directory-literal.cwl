cwlVersion: v1.2
class: CommandLineTool
doc: A directory that the job puts together from files.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cd "$0"; find -L . -type f | sort | xargs cat']
inputs: {folder: {type: Directory, inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
