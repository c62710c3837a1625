cwlVersion: v1.2
class: CommandLineTool
doc: Files that come along - one by adding a suffix, one by replacing it, one that need not be there.
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cd "$(dirname "$0")"; ls ref*']
inputs: {ref: {type: File, secondaryFiles: [.fai, ^.dict, .gzi?], inputBinding: {}}}
stdout: said.txt
outputs: {said: stdout}
