#!/usr/bin/env bash
# Prepares this checkout: setup.sh run|demo|test|kubernetes. Installs system packages only as root on Debian or Ubuntu; elsewhere says
# exactly what is missing. Safe to run again: what is there already is left alone. Without root, containers run by the native engine where
# the kernel lets this user make namespaces, else in Docker or podman: `run` says what is missing for them and goes on, as data can be
# served without; `demo` stops before it installs anything. `test` goes on without root: tests leave out what needs a missing program.
set -euo pipefail
cd "$(dirname "$0")/.."

asked=${1:-run}
purpose=$asked
[ "$asked" != demo ] || purpose=run
[ "$asked" != kubernetes ] || purpose=test
run_tools=(crun fusermount3 nft slirp4netns)
test_tools=(
    crun dockerd containerd bowtie2 samtools bcftools curl ssh sftp-server ip git initdb slurmctld slurmd munged sge_qmaster sge_execd podman docker-registry
    fusermount3 cadaver mount.davfs unzip node gcc pkg-config fuse.pc mpirun mpicc sshd nsenter nft slirp4netns pasta newuidmap
    mmdebstrap chromium promtool
)
# Beside those of tests: of a control plane, and of a node with a kubelet.
kubernetes_tools=(etcd libseccomp.pc host-local)
[ "$asked" != kubernetes ] || test_tools+=("${kubernetes_tools[@]}")
declare -A package=(
    [crun]=crun [dockerd]=docker.io [containerd]=containerd [bowtie2]=bowtie2 [samtools]=samtools
    [bcftools]=bcftools [curl]=curl [ip]=iproute2 [git]=git [initdb]=postgresql
    [slurmctld]=slurm-wlm [slurmd]=slurm-wlm [munged]=munge [sge_qmaster]=gridengine-master [sge_execd]=gridengine-exec [podman]=podman [docker-registry]=docker-registry
    [ssh]=openssh-client [sftp-server]=openssh-sftp-server [fusermount3]=fuse3 [cadaver]=cadaver [mount.davfs]=davfs2 [unzip]=unzip [node]=nodejs [gcc]=build-essential [pkg-config]=pkg-config [fuse.pc]=libfuse-dev
    [mpirun]=openmpi-bin [mpicc]=libopenmpi-dev [sshd]=openssh-server [nsenter]=util-linux [nft]=nftables [slirp4netns]=slirp4netns [pasta]=passt [newuidmap]=uidmap [mmdebstrap]=mmdebstrap
    [chromium]=chromium [promtool]=prometheus
    [etcd]=etcd-server [libseccomp.pc]=libseccomp-dev [host-local]=containernetworking-plugins
)

installed=()
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/lading-tests
say() { printf 'setup: %s\n' "$*" >&2; }

is_fit() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Built with profile-guided optimisation, as distributions do (Debian without saying so in its configuration) and many
# installers of several versions do not: half as many containers again in the same time.
is_fast() {
    "$1" -c 'import sys, sysconfig as c; sys.exit(sys.base_prefix != "/usr" and "--enable-optimizations" not in (c.get_config_var("CONFIG_ARGS") or ""))'
}

find_python() {
    local candidate first=""
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 /usr/bin/python3; do
        { [ -n "$candidate" ] && is_fit "$candidate"; } || continue
        if [ "$candidate" = "${PYTHON:-}" ] || is_fast "$candidate"; then
            first=$candidate
            break
        fi
        first=${first:-$candidate}
    done
    if [ -z "$first" ] && can_install && [ -z "${tried_python:-}" ]; then
        tried_python=1
        install python3 python3-venv
        find_python
        return
    fi
    if [ -z "$first" ]; then
        say "Python 3.11 or newer is needed; install it and run this again with PYTHON=/path/to/python3"
        exit 1
    fi
    "$first" -c 'import sys; print(sys.executable)'
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
    say "installing $*"
    installed+=("$@")
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
}

# A program, or the headers of a library as NAME.pc. Debian keeps PostgreSQL's programs and network plugins out of the path.
has() {
    case "$1" in
        *.pc) pkg-config --exists "${1%.pc}" 2>/dev/null ;;
        *) PATH="$PATH:/usr/sbin:/sbin:/usr/lib/openssh:/usr/lib/cni$(printf ':%s' /usr/lib/postgresql/*/bin)" command -v "$1" >/dev/null ;;
    esac
}

need_tools() {
    local tool missing=()
    for tool in "$@"; do
        has "$tool" || missing+=("${package[$tool]}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if can_install; then
        install "${missing[@]}"
    elif [ "$(id -u)" != 0 ] && [ "$asked" = test ]; then
        say "tests that need these packages are left out: ${missing[*]}. To run them too, on Debian or Ubuntu:"
        say "    sudo apt-get install --no-install-recommends ${missing[*]}"
    else
        say "missing: ${missing[*]}. On Debian or Ubuntu, as root:"
        say "    apt-get install --no-install-recommends ${missing[*]}"
        exit 1
    fi
}

# Whether a service listens on a socket, and admits this user.
answers() { [ -S "$1" ] && "$2" -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect(sys.argv[1])' "$1" 2>/dev/null; }

# Whether the kernel lets this user make the namespaces of containers, and mount in them (lading.supervisor.rootless_trial tries more).
makes_namespaces() { unshare --user --map-root-user --mount mount -t tmpfs tmpfs /mnt 2>/dev/null; }

# Without root: the native engine, or a Docker or podman that answers this user (lading.supervisor.engines.choice looks in the same
# places). It is looked for before anything is installed, and the one command that brings it is said.
need_engine_of_user() {
    local python runtime socket remedy="" missing=()
    ! makes_namespaces || return 0
    python=$(find_python)
    runtime=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
    for socket in "${DOCKER_HOST:+${DOCKER_HOST#unix://}}" /var/run/docker.sock "$runtime/docker.sock" /run/podman/podman.sock \
        "$runtime/podman/podman.sock" "${TMPDIR:-/tmp}/podman-run-$(id -u)/podman/podman.sock"; do
        ! answers "$socket" "$python" || return 0
    done
    has podman || missing+=(podman)
    has newuidmap || missing+=(uidmap)
    has slirp4netns || missing+=(slirp4netns)
    [ ${#missing[@]} -eq 0 ] || remedy="sudo apt-get install --no-install-recommends ${missing[*]} && "
    if [ -d /run/systemd/system ] && [ -n "${XDG_RUNTIME_DIR:-}" ]; then
        remedy+="systemctl --user enable --now podman.socket"
    else
        remedy+="{ podman system service --time=0 & }"
    fi
    say "no Docker or podman answers this user, so no container can run here. First (on Debian or Ubuntu):"
    say "    $remedy"
    say "or, with root, which needs neither: sudo make $([ "$1" = demo ] && echo demo || echo setup)"
    [ "$1" != demo ] || exit 1
}

tell_what_next() {
    say "ready: $("$PWD/.venv/bin/python" -c 'import lading, sys; print(f"lading {lading.__version__}, Python {sys.version.split()[0]}")') in .venv"
    [ ${#installed[@]} -eq 0 ] || say "installed from the distribution: ${installed[*]}"
    case "$asked" in
        run) say "next: export PATH=$PWD/.venv/bin:\$PATH; lading up" ;;
        test) say "next: make test, or .venv/bin/pytest -q tests/core" ;;
    esac
}

# Of the packages of tests alone: not of Lading, whose directory is another one in each checkout.
keep_environment() {
    find "$cache" -maxdepth 1 -name 'checkout-*' -mtime +14 -exec rm -rf {} +
    printf '%s' "$PWD/.venv" >.venv/origin
    # Whole or not at all; another process may have been faster.
    cp -a --reflink=auto .venv "$1.$$" && mv -T "$1.$$" "$1" 2>/dev/null || rm -rf "$1.$$"
}

copy_environment() {
    local origin
    origin=$(<"$1/origin")
    say "copying the pinned Python packages"
    touch "$1"
    cp -a --reflink=auto "$1" ".venv.$$"
    # The programs name the environment's own Python.
    grep -rlIF "$origin" ".venv.$$/bin" | xargs -r sed -i "s#$origin#$PWD/.venv#g"
    mv -T ".venv.$$" .venv
    is_copy=1
}

# lading-start, which starts containers, is compiled when Lading is installed. Where there is neither a compiler nor crun, which is
# used without it, the compiler of the package ziglang does that, and is removed afterwards.
install_lading() {
    local compiler=""
    if ! command -v "${CC:-cc}" >/dev/null && ! has crun; then
        compiler=$(mktemp -d)
        say "fetching a C compiler, once, for the program that starts containers"
        .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes --target "$compiler" -r requirements/compiler.txt ||
            say "there is no C compiler here, so containers need the package crun, Docker or podman"
    fi
    PYTHONPATH=$compiler ZIG_GLOBAL_CACHE_DIR=$compiler/cache ZIG_LOCAL_CACHE_DIR=$compiler/cache \
        .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    [ -z "$compiler" ] || rm -rf "$compiler"
}

make_environment() {
    local python wanted kept is_copy="" is_new=""
    wanted="$(cat requirements/"$purpose".txt pyproject.toml | sha256sum) $purpose"
    if [ -x .venv/bin/lading ] && [ "$(cat .venv/prepared 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    # The test environment has all that the plain one has.
    if [ "$purpose" = run ] && [ -x .venv/bin/lading ] &&
        [ "$(cat .venv/prepared 2>/dev/null)" = "$(cat requirements/test.txt pyproject.toml | sha256sum) test" ]; then
        return
    fi
    python=$(find_python)
    # Named by the lock file: the same packages are installed once on a machine, and copied into further checkouts.
    kept="$cache/checkout-$(cat requirements/test.txt <("$python" -VV) | sha256sum | head -c 16)"
    if [ "$purpose" = test ] && [ ! -e .venv ] && [ -d "$kept" ]; then
        copy_environment "$kept"
    fi
    if ! .venv/bin/python -c '' 2>/dev/null; then
        is_new=1
        if ! "$python" -m venv .venv 2>/dev/null; then
            rm -rf .venv
            if can_install; then
                install python3-venv
            else
                say "this Python cannot make virtual environments; on Debian or Ubuntu, as root: apt-get install python3-venv"
                exit 1
            fi
            "$python" -m venv .venv
        fi
    fi
    if [ -z "$is_copy" ]; then
        say "installing the pinned Python packages"
        .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/"$purpose".txt
        [ "$purpose" != test ] || [ -z "$is_new" ] || keep_environment "$kept"
    fi
    install_lading
    printf '%s' "$wanted" >.venv/prepared
}

case "$purpose" in
    run) if [ "$(id -u)" = 0 ]; then need_tools "${run_tools[@]}"; else need_engine_of_user "$asked"; fi ;;
    test) need_tools "${test_tools[@]}" ;;
    *) say "usage: setup.sh run|demo|test|kubernetes"; exit 2 ;;
esac
# The page works without its scripts; its tests do not. npm waits for its registry longer than it works.
assets=""
if [ "$purpose" = test ]; then
    mkdir -p "$cache"
    if command -v npm >/dev/null; then
        scripts/assets.sh test &
        assets=$!
    fi
fi
make_environment
if [ -n "$assets" ]; then
    wait "$assets"
elif [ "$purpose" = test ]; then
    scripts/assets.sh test
fi
tell_what_next
