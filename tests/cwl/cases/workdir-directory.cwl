cwlVersion: v1.2
class: CommandLineTool
doc: An input directory in the working directory, to be read.
requirements: {InitialWorkDirRequirement: {listing: [{entryname: here, entry: $(inputs.folder)}]}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'find -L here -type f | sort; cat here/deep/c.txt']
inputs: {folder: Directory}
stdout: said.txt
outputs: {said: stdout}
