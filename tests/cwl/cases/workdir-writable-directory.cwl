cwlVersion: v1.2
class: CommandLineTool
doc: A copy of a directory, added to, changed and cut down.
requirements:
  InitialWorkDirRequirement:
    listing: [{entryname: work, entry: $(inputs.folder), writable: true}]
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cd work; echo new >deep/new.txt; echo more >>a.txt; rm b.txt']
inputs: {folder: Directory}
outputs: {changed: {type: Directory, outputBinding: {glob: work}}}
