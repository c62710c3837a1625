cwlVersion: v1.2
class: CommandLineTool
doc: The job gives a file another name, and the tool sees it under that.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'basename "$0"; head -n 1 "$0"']
inputs: {file: {type: File, inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
