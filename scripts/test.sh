#!/usr/bin/env bash
# All tests, two at a time. Those of modules come first and are counted: core 100 %, everything at least 92 %, branches
# included. Then those of real processes and real engines, at their own pace. With arguments: only what they select.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
if [ $# -gt 0 ]; then
    exec .venv/bin/pytest -q "$@"
fi
side_by_side=(-n 2 --dist loadfile --no-loadscope-reorder)
real=(tests/system tests/cwl)
export COVERAGE_FILE="${COVERAGE_FILE:-$PWD/.coverage}"
rm -f "$COVERAGE_FILE" "$COVERAGE_FILE".*
.venv/bin/coverage run -m pytest -q "${side_by_side[@]}" "${real[@]/#/--ignore=}"
.venv/bin/coverage combine -q
.venv/bin/coverage report --include='*/lading/core/*' --fail-under=100 >/dev/null || {
    .venv/bin/coverage report --include='*/lading/core/*'
    echo "core is not covered to 100 %" >&2
    exit 1
}
.venv/bin/coverage report --fail-under=92
.venv/bin/pytest -q "${side_by_side[@]}" "${real[@]}"
