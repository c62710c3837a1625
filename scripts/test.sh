#!/usr/bin/env bash
# Tests, two at a time (tests/levels.py has the levels):
#   test.sh              those of modules, with core covered to 100 % by its own tests, branches included; then the quick
#                        ones of real processes and real engines.
#   test.sh system       the other tests of real processes and real engines.
#   test.sh system REV   of these, the ones that the change since a revision can reach; `.ci/base` is that of this file.
#   test.sh coverage     those of modules alone, which must cover everything to at least 92 %.
#   test.sh WHAT...      only what these arguments of pytest select.
# Up to three tests that fail are tried once more, alone, and named even if they pass then.
set -euo pipefail
cd "$(dirname "$0")/.."
# Else each program that a test starts compiles all of Lading, which takes longer than to import it.
unset PYTHONDONTWRITEBYTECODE
level=${1:-test}
case "$level" in
    test | system | coverage) ;;
    *) exec .venv/bin/pytest -q "$@" ;;
esac
side_by_side=(-n 2 --dist loadfile --no-loadscope-reorder)
# Each test of these directories is either marked `quick` or not. Those whose files take longest come first: a file is
# the work of one process.
real=(tests/docs tests/cwl tests/security tests/arvados_go tests/system)
most_again=3
failed=.pytest_cache/v/cache/lastfailed

# try RUNNER... -- SELECTION...: real machines stumble; a defect fails twice.
try() {
    local runner=() names
    while [ "$1" != -- ]; do
        runner+=("$1")
        shift
    done
    shift
    rm -f "$failed"
    "${runner[@]}" -q "${side_by_side[@]}" "$@" && return
    [ -s "$failed" ] || return 1
    names=$(grep -c '::' "$failed" || true)
    [ "$names" -gt 0 ] && [ "$names" -le "$most_again" ] && [ "$names" = "$(grep -c '": true' "$failed")" ] || return 1
    echo "Once more, alone:"
    cat "$failed"
    .venv/bin/pytest -q --last-failed --last-failed-no-failures none "$@" || return 1
    echo "UNSTEADY: failed beside others, passed alone; each is a defect of the test or of what it tests." >&2
}

# Temporary files of tests of modules are kept in memory, if there is room and programs and attributes are allowed there:
# thousands of small databases wait for a disk longer than they work. Tests of real processes use the disk.
use_memory() {
    local free
    free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || return 0
    [ "$free" -ge $((4 << 20)) ] || return 0
    memory=$(mktemp -d /dev/shm/lt-XXXXXX) || return 0
    trap 'rm -rf "$memory"' EXIT
    # As /tmp: PostgreSQL runs as a user of its own.
    chmod 1777 "$memory"
    if .venv/bin/python - "$memory/true" 2>/dev/null <<'END'; then
import os, shutil, subprocess, sys
shutil.copy("/bin/true", sys.argv[1])
subprocess.run(sys.argv[1:], check=True)
os.setxattr(sys.argv[1], "user.attribute", b"")
END
        export TMPDIR=$memory
    fi
    rm -f "$memory/true"
}

# cover LEAST SOURCE COMMAND...: run pytest, which must cover a part of the product to so many percent.
cover() {
    local least=$1 source=$2
    shift 2
    export COVERAGE_FILE="${COVERAGE_FILE:-$PWD/.coverage}"
    rm -f "$COVERAGE_FILE" "$COVERAGE_FILE".*
    try .venv/bin/coverage run --source="$source" -m pytest -- "$@"
    .venv/bin/coverage combine -q
    .venv/bin/coverage report --fail-under="$least"
}

case "$level" in
    system)
        chosen=("${real[@]}")
        if [ -n "${2:-}" ]; then
            revision=$2
            [ "$revision" != .ci/base ] || revision=""
            .venv/bin/python -m tests.affected --base "$revision"
            mapfile -t chosen < <(.venv/bin/python -m tests.affected --base "$revision" --names)
            [ "${#chosen[@]}" -gt 0 ] && [ -n "${chosen[0]}" ] || exit 0
        fi
        try .venv/bin/pytest -- -m 'not quick and not long' "${chosen[@]}"
        ;;
    coverage)
        (
            use_memory
            cover 92 lading "${real[@]/#/--ignore=}"
        )
        ;;
    test)
        # What the package index has to bring comes while tests of modules run. Who needs it first, waits or makes it.
        .venv/bin/python -m tests.system.environments test &
        environments=$!
        (
            use_memory
            cover 100 lading.core tests/core
            try .venv/bin/pytest -- --ignore=tests/core "${real[@]/#/--ignore=}"
        )
        wait "$environments"
        try .venv/bin/pytest -- -m 'quick and not long' "${real[@]}"
        ;;
esac
