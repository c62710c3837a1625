cwlVersion: v1.2
class: CommandLineTool
doc: A tool that names no image has python, and the Arvados client with its programs.
requirements: {ShellCommandRequirement: {}}
baseCommand: [python, -c]
arguments:
- |
  import arvados, shutil, sys
  print(arvados.__name__, sys.version_info >= (3, 9))
  print(*(name for name in ("arv-ls", "arv-get", "arv-put", "crunchstat-summary", "cwltool") if shutil.which(name)))
- {shellQuote: false, valueFrom: "&& python3 -c 'import arvados' && arv-ls --version > version && rm version && echo yes"}
inputs: {}
stdout: said.txt
outputs: {said: {type: stdout}}
