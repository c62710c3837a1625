#!/usr/bin/env bash
# Builds the wheels and the sdist of this checkout: build.sh [DIRECTORY], by default dist. The same commit gives the same
# bytes: all files have the time of the commit (or SOURCE_DATE_EPOCH), and the tools are pinned in requirements/release.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${1:-dist}")
umask 022
unset PYTHONDONTWRITEBYTECODE PYTHONPATH
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
scripts/assets.sh
scripts/release_tools.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Of the files that git knows, so that nothing else of this directory gets into a release; a change that is not committed does.
git ls-files -z | xargs -0 cp --parents --no-preserve=mode,ownership -t "$work"
cp -r src/lading/web/static/vendor "$work/src/lading/web/static"
"$PWD/build/release/bin/python" -W error::UserWarning -m build --no-isolation --sdist -o "$work/out" "$work" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mkdir "$work/sdist"
tar xzf "$work"/out/*.tar.gz -C "$work/sdist"
name=$(ls "$work/sdist")
# A wheel for each processor: lading-start is a program of its own. It is the same for all C libraries and distributions.
for processor in x86_64 aarch64; do
    LADING_STARTER_TARGET=$processor build/release/bin/python -m build --no-isolation --wheel -o "$work/out" "$work/sdist/$name" \
        >>"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    rm -rf "$work/sdist/$name/build"
done
# The client alone, for all systems. pip on Linux prefers the wheel of the processor, which has the server's modules too.
LADING_WHEEL=client build/release/bin/python -m build --no-isolation --wheel -o "$work/out" "$work/sdist/$name" \
    >>"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
if grep -i -E 'warn|deprecat' "$work/log" >&2; then
    echo "build: the build printed warnings" >&2
    exit 1
fi
# setuptools writes the present time into some entries of a sdist; written anew, it has none.
rm -rf "$work/sdist/$name/build"
tar --format=pax --pax-option=delete=atime,delete=ctime --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$work/sdist" -c "$name" | gzip -9n >"$work/out/$name.tar.gz"
mkdir -p "$target"
for file in "$work"/out/*; do
    cp "$file" "$target"
    printf '%s\n' "$target/$(basename "$file")"
done
