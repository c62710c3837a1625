cwlVersion: v1.2
class: CommandLineTool
doc: One line for each sample.
hints:
  DockerRequirement: {dockerPull: "phage-tools:1"}
  ResourceRequirement: {coresMin: 1, ramMin: 128}
requirements:
  InitialWorkDirRequirement:
    listing:
      - entryname: report.awk
        entry: |
          BEGIN { printf "%-10s %8s %8s %8s %9s\n", "sample", "aligned", "covered", "depth", "variants" }
          FNR == 1 { name = FILENAME; sub(/.*\//, "", name); kind = sub(/\.vcf$/, "", name); sub(/\.txt$/, "", name) }
          !kind && FNR == 2 { order[++count] = name; aligned[name] = $4; covered[name] = $6; depth[name] = $7 }
          kind && !/^#/ { variants[name]++ }
          END {
            for (i = 1; i <= count; i++) {
              name = order[i]
              printf "%-10s %8d %7.2f%% %8.2f %9d\n", name, aligned[name], covered[name], depth[name], variants[name]
            }
          }
baseCommand: [awk, -f, report.awk]
inputs:
  statistics: {type: 'File[]', inputBinding: {position: 1}}
  variants: {type: 'File[]', inputBinding: {position: 2}}
stdout: report.txt
outputs: {report: stdout}
