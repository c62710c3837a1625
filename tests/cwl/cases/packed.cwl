cwlVersion: v1.2
doc: A document that holds several processes, the main one by its name.
$graph:
  - id: loud
    class: CommandLineTool
    hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
    baseCommand: [tr, a-z, A-Z]
    stdin: $(inputs.file.path)
    inputs: {file: File}
    stdout: loud.txt
    outputs: {loud: stdout}
  - id: main
    class: Workflow
    inputs: {file: File}
    outputs: {loud: {type: File, outputSource: step/loud}}
    steps:
      step: {run: "#loud", in: {file: file}, out: [loud]}
