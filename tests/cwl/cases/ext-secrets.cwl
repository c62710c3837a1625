cwlVersion: v1.2
class: CommandLineTool
doc: A secret reaches the tool in a file.
$namespaces: {cwltool: http://commonwl.org/cwltool#}
requirements:
  InitialWorkDirRequirement: {listing: [{entryname: password.txt, entry: '$(inputs.password)'}]}
hints:
  DockerRequirement: {dockerPull: "cwl-cases:1"}
  cwltool:Secrets: {secrets: [password]}
baseCommand: [sha256sum, password.txt]
inputs: {password: string}
stdout: sum.txt
outputs: {sum: stdout}
