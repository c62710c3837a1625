#!/usr/bin/env bash
# Makes build/release, the environment of the programs that build and check a release. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(sha256sum <requirements/release.txt)
[ "$(cat build/release/prepared 2>/dev/null)" != "$wanted" ] || exit 0
python=.venv/bin/python
[ -x "$python" ] || python=python3
"$python" -m venv --clear build/release
build/release/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/release.txt
printf '%s' "$wanted" >build/release/prepared
