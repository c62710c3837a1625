cwlVersion: v1.2
class: CommandLineTool
doc: A tool that asks for the network runs with it.
requirements: {NetworkAccess: {networkAccess: true}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'test $(wc -l </proc/net/dev) -ge 3 && echo there']
inputs: {}
stdout: said.txt
outputs: {said: stdout}
