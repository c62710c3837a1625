cwlVersion: v1.2
class: CommandLineTool
doc: How much of a directory expressions see - nothing, one level, or all.
requirements: {InlineJavascriptRequirement: {}}
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [printf, '%s\n']
arguments:
  - '${ return inputs.none.listing === undefined ? "none" : "some"; }'
  - '$(inputs.shallow.listing.map(function (e) { return e.basename; }).sort().join(","))'
  - '${ var d = inputs.deep.listing.filter(function (e) { return e.class == "Directory"; }); return d[0].listing[0].basename; }'
inputs:
  none: {type: Directory, loadListing: no_listing}
  shallow: {type: Directory, loadListing: shallow_listing}
  deep: {type: Directory, loadListing: deep_listing}
stdout: said.txt
outputs: {said: stdout}
