cwlVersion: v1.2
class: CommandLineTool
doc: The format of an input is checked, that of an output is said.
$namespaces: {edam: http://edamontology.org/}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [head, -n, '1']
inputs: {ref: {type: File, format: edam:format_1929, inputBinding: {}}}
stdout: first.txt
outputs: {first: {type: stdout, format: edam:format_1964}}
