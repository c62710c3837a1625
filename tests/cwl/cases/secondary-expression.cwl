cwlVersion: v1.2
class: CommandLineTool
doc: A name of a file that comes along, computed from the first.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cat "$0.fai"']
inputs: {ref: {type: File, secondaryFiles: ['$(self.basename + ".fai")'], inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
