cwlVersion: v1.2
class: CommandLineTool
doc: Files and directories that an expression makes up.
requirements:
  InlineJavascriptRequirement: {}
  InitialWorkDirRequirement:
    listing: |
      ${
        return [
          {"class": "File", "basename": "made.txt", "contents": "made up\n"},
          {"class": "Directory", "basename": "made", "listing": [
            {"class": "File", "basename": "inner.txt", "contents": "inner\n"}]}
        ];
      }
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, -c, 'cat made.txt made/inner.txt']
inputs: {}
stdout: said.txt
outputs: {said: stdout}
