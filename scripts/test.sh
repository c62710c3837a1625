#!/usr/bin/env bash
# All tests with coverage: core 100 %, everything at least 92 %, branches counted.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
export COVERAGE_FILE="${COVERAGE_FILE:-$PWD/.coverage}"
rm -f "$COVERAGE_FILE" "$COVERAGE_FILE".*
.venv/bin/coverage run -m pytest -q "$@"
.venv/bin/coverage combine -q
.venv/bin/coverage report --include='*/lading/core/*' --fail-under=100 >/dev/null || {
    .venv/bin/coverage report --include='*/lading/core/*'
    echo "core is not covered to 100 %" >&2
    exit 1
}
.venv/bin/coverage report --fail-under=92
