cwlVersion: v1.2
class: ExpressionTool
doc: The same by a requirement, in an expression that runs without a container.
requirements: {InlineJavascriptRequirement: {}, LoadListingRequirement: {loadListing: shallow_listing}}
inputs: {folder: Directory}
outputs: {names: 'string[]'}
expression: '$({"names": inputs.folder.listing.map(function (e) { return e.basename; }).sort()})'
