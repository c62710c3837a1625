cwlVersion: v1.2
class: CommandLineTool
doc: A script with dollars and quotes that are its own.
requirements:
  InitialWorkDirRequirement:
    listing:
      - entryname: run.sh
        entry: |
          for word in "one two" three; do
            printf '<%s>\n' "\${word}"
          done
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: [sh, run.sh]
inputs: {}
stdout: said.txt
outputs: {said: stdout}
