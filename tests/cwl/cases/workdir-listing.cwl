cwlVersion: v1.2
class: CommandLineTool
doc: The whole listing is one expression - what an input directory holds, and an array of files.
requirements:
  InlineJavascriptRequirement: {}
  InitialWorkDirRequirement: {listing: '$(inputs.folder.listing.concat(inputs.files))'}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'find -L . -type f | sort']
inputs: {folder: {type: Directory, loadListing: shallow_listing}, files: 'File[]'}
stdout: said.txt
outputs: {said: stdout}
