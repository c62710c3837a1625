cwlVersion: v1.2
class: CommandLineTool
doc: Names with spaces and signs, in and out.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cp "$0" "out of (this) + that.txt"']
inputs: {file: {type: File, inputBinding: {}}}
outputs: {copy: {type: File, outputBinding: {glob: "out of*"}}}
