"""Installs Lading in clean Debian roots, each way of installing in a root of its own, and prints a
table of the times to the first result.

    scripts/clean_root.py                 all ways
    scripts/clean_root.py deb pipx        some of them
    scripts/clean_root.py --list          what there is

Run as root on Debian or Ubuntu with mmdebstrap, and systemd-container for the ways that boot.
`scripts/deb.sh` or `make deb` has built dist/ before. A root has the essential packages and
certificates only; it is a directory below --directory, in mount and process namespaces of its
own, and is removed afterwards. Packages come from where this machine gets its own. A way with
another Python takes the one that pyenv or uv has installed here; without one it is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Variables that say how packages are fetched; the certificates are those of the root.
CARRIED = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
           "PIP_DEFAULT_TIMEOUT", "UV_INDEX_URL")  # fmt: skip
FIRST_RESULT = """
lading up --listen 127.0.0.1:0 >up.out 2>&1 &
until grep -q 'lading: engine' up.out; do kill -0 $! || { cat up.out; exit 1; }; sleep 0.1; done
cat up.out
lading image add --name tools:1 --from-host sh seq wc
test "$(lading run -- sh -c 'seq 6 | wc -l')" = 6
lading run -- sh -c 'seq 6 | wc -l' 2>&1 | grep reused
kill $!; wait $! || :
"""
# An ordinary user's first minutes: no `lading up`, no root, no package but Python's and the ssh
# that `lading shell` starts. The shell of a running container, and the end of one that uses more
# memory than it asked for.
BARE = """
lading image add --name tools:1 --from-host sh seq wc sleep tail cat
test "$(lading run -- sh -c 'seq 6 | wc -l')" = 6
lading run -- sh -c 'seq 6 | wc -l' 2>&1 | grep reused
code=0; lading run --ram 64MiB -- tail /dev/zero 2>said || code=$?
cat said; test "$code" = 137 && grep 'ask for more' said
code=0; lading run -- sh -c 'kill -9 $$' || code=$?; test "$code" = 137
lading run --detach --name long --max-run-time 60 -- sh -c 'echo inside > /tmp/here; sleep 60'
until lading request list | grep -q running; do sleep 0.1; done
test "$(lading shell long -- cat /tmp/here)" = inside
lading request cancel long && lading down
"""
ENGINE = "crun"
PODMAN = "podman uidmap slirp4netns fuse-overlayfs"
# Work that systemd does for a user who logs in and has enabled podman.socket; a root has no
# systemd.
SESSION = """
export XDG_RUNTIME_DIR=/run/user/$(id -u)
podman system service --time=0 "unix://$XDG_RUNTIME_DIR/podman/podman.sock" >podman.out 2>&1 &
for _ in $(seq 100); do [ -S "$XDG_RUNTIME_DIR/podman/podman.sock" ] && break; sleep 0.1; done
"""


# What the dispatcher asks of a VM, and what prepare.sh leaves for the first start.
VM_IS_READY = """
python3 /src/src/lading/dispatch/fleets/cloud/agent.py check /var/lib/lading | tee facts
grep -q '"engines": \\["crun"\\]' facts && grep -q '"root": true' facts
mkdir -p /run/sshd && ssh-keygen -A >/dev/null && /usr/sbin/sshd -t
slirp4netns --version >/dev/null && nft --version && cloud-init --version
test -L /etc/systemd/system/multi-user.target.wants/lading-scratch.service
sh -n /usr/local/sbin/lading-scratch
sh /src/packaging/vm/prepare.sh
test ! -s /etc/machine-id && test -z "$(ls /etc/ssh/ssh_host_*_key* 2>/dev/null)"
"""


# A service is ready when systemd says so; containers survive a restart and are adopted.
REQUESTS = """
lading image add --name tools:1 --from-host sh seq sleep wc
test "$(lading run -- sh -c 'seq 6 | wc -l')" = 6
lading run --detach --name long -- sh -c 'sleep 5; seq 3'
until lading request list | grep -q running; do sleep 0.2; done
"""
SURVIVES = """
lading wait long && test "$(lading request logs long | wc -l)" = 3
test "$(lading request show long --json | grep -c Cancelled)" = 0
"""
SERVICE = f"""
systemctl start lading && systemctl status lading --no-pager | grep 'Status: "serving'
. /var/lib/lading/env
{REQUESTS}
systemctl restart lading
{SURVIVES}
systemctl stop lading && journalctl --unit lading --no-pager | grep 'engine: native'
"""
OWN_SERVICE = f"""
loginctl enable-linger ann
until [ -S /run/user/1000/bus ]; do sleep 0.2; done
cat >/tmp/own <<'END'
set -e
export XDG_RUNTIME_DIR=/run/user/1000 PATH=/opt/l/bin:$PATH
systemctl --user enable --now podman.socket
lading service install --user --listen 127.0.0.1:9555 || (journalctl | tail -n 20; exit 1)
systemctl --user status lading --no-pager | grep 'engine: podman rootless'
. ~/.local/share/lading/env
{REQUESTS}
systemctl --user restart lading
{SURVIVES}
lading service remove --user
END
su - ann -s /bin/bash /tmp/own
"""


@dataclass(frozen=True)
class Way:
    """One way. `packages` are there before, `install` is timed, then `check` gives a first
    result.
    """

    name: str
    says: str
    packages: str
    install: str
    check: str = FIRST_RESULT
    user: bool = False
    boots: bool = False
    """`check` runs in the root when systemd has booted it, which needs systemd-container here."""
    patience: float = 1200.0
    python: str = ""
    """Version of a Python of this machine that the root gets beside the distribution's."""
    check_limit: float = math.inf
    """Seconds that `check` may take."""


BARE_LIMIT = 30.0
WHEEL = '"$(echo /dist/lading-*_$(uname -m).whl)[server]"'
ENOUGH_PACKAGES = 8
"""Packages of the client, itself included."""
# The client for all systems, against a site of another environment. Its size is without bytecode,
# which pip writes beside the modules.
CLIENT = f"""
packages=$(/opt/c/bin/pip list --format=freeze | grep -vc -E '^(pip|setuptools)=')
size=$(du -sbc --exclude='*.pyc' $(ls -d /opt/c/lib/python3*/site-packages/* |
    grep -v -E '/(pip|setuptools|pkg_resources|_distutils_hack|distutils-)') | tail -n 1 | cut -f1)
echo "client: $packages packages, $size bytes without bytecode"
test "$packages" -le {ENOUGH_PACKAGES} && test "$size" -le 15000000
! /opt/c/bin/lading up 2>refused && cat refused && grep 'the wheel for Linux' refused
python3 -m venv /opt/l && /opt/l/bin/pip install -q {WHEEL}
/opt/l/bin/lading up --data /srv/lading --listen 127.0.0.1:0 >up.out 2>&1 &
until grep -q 'lading: engine' up.out; do kill -0 $! || {{ cat up.out; exit 1; }}; sleep 0.1; done
. /srv/lading/env
unset LADING_DATA
PATH=/opt/c/bin:$PATH
lading image add --name tools:1 --from-host sh seq wc
test "$(lading run -- sh -c 'seq 6 | wc -l')" = 6
lading run -- sh -c 'seq 6 | wc -l' 2>&1 | grep reused
seq 9 >numbers && lading put --name numbers numbers && lading get numbers again
cmp numbers again/numbers
kill $!; wait $! || :
"""


def _bare_way(python: str) -> Way:
    """The way of an ordinary user without an engine, with another Python than Debian's."""
    return Way(
        f"bare-{python}", f"the same with Python {python}", "python3-venv openssh-client",
        f"$PYTHON -m venv l && l/bin/pip install -q {WHEEL}"
        f" && l/bin/python -V | grep -F 'Python {python}.'",
        "PATH=$HOME/l/bin:$PATH" + BARE, user=True, python=python, check_limit=BARE_LIMIT,
    )  # fmt: skip


WAYS = (
    Way("demo", "make demo, root", "make", "true", "cd /src && make demo"),
    Way("demo-user", "make demo, user with rootless podman", f"make python3-venv {PODMAN}",
        "true", SESSION + "cp -r /src src && cd src && make demo", user=True),
    Way("demo-bare", "make demo, user with Python alone", "make python3-venv",
        "true", "cp -r /src src && cd src && make demo 2>said || { cat said; exit 1; }; cat said;"
        " ! grep 'apt-get install' said", user=True),
    Way("pip", "pip install, root", f"python3-venv {ENGINE}",
        f"python3 -m venv /opt/l && /opt/l/bin/pip install -q {WHEEL}",
        "PATH=/opt/l/bin:$PATH" + FIRST_RESULT),
    Way("pip-user", "pip install, user with rootless podman", f"python3-venv {PODMAN}",
        f"python3 -m venv l && l/bin/pip install -q {WHEEL}",
        "PATH=$HOME/l/bin:$PATH" + SESSION + FIRST_RESULT, user=True),
    Way("bare", "pip install, user without an engine, crun or podman",
        "python3-venv openssh-client",
        f"python3 -m venv l && l/bin/pip install -q {WHEEL}", "PATH=$HOME/l/bin:$PATH" + BARE,
        user=True, check_limit=BARE_LIMIT),
    *(_bare_way(version) for version in ("3.12", "3.13")),
    Way("client", "pip install of the client for all systems, against a site",
        f"python3-venv {ENGINE}",
        "python3 -m venv /opt/c && /opt/c/bin/pip install -q /dist/lading-*-py3-none-any.whl",
        CLIENT),
    Way("pip-extras", "pip install with [server,s3,cloud], root", f"python3-venv {ENGINE}",
        "python3 -m venv /opt/l && /opt/l/bin/pip install -q "
        + WHEEL.replace("[server]", "[server,s3,cloud]"),
        "PATH=/opt/l/bin:$PATH" + FIRST_RESULT),
    Way("pipx", "pipx install, root", f"pipx {ENGINE}", f"pipx install {WHEEL}",
        "PATH=$HOME/.local/bin:$PATH" + FIRST_RESULT),
    Way("uv", "uv tool install, root", f"python3-venv {ENGINE}",
        "python3 -m venv /opt/uv && /opt/uv/bin/pip install -q uv"
        f" && /opt/uv/bin/uv tool install -q --python /usr/bin/python3 {WHEEL}",
        "PATH=$HOME/.local/bin:$PATH" + FIRST_RESULT),
    Way("deb", "apt-get install ./lading.deb, root", "",
        "apt-get install -qq --no-install-recommends /dist/lading_*.deb", FIRST_RESULT),
    Way("systemd", "apt-get install ./lading.deb, its service by systemd", "systemd-sysv dbus",
        "apt-get install -qq --no-install-recommends /dist/lading_*.deb && systemctl enable lading",
        SERVICE, boots=True),
    Way("systemd-user", "lading service install --user, by systemd, with rootless podman",
        f"systemd-sysv dbus-user-session libpam-systemd python3-venv {PODMAN}",
        f"python3 -m venv /opt/l && /opt/l/bin/pip install -q {WHEEL}", OWN_SERVICE, boots=True),
    Way("vm", "packaging/vm/prepare.sh, the image of a VM", "", "sh /src/packaging/vm/prepare.sh",
        VM_IS_READY),
    Way("test", "make test and make system, root; an hour and more", "make", "true",
        "cd /src && make test system",
        patience=4 * 3600.0),
)  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """Seconds that the parts of a way took; `failed` names the part that did not work."""

    way: Way
    packages: float = 0.0
    install: float = 0.0
    check: float = 0.0
    failed: str = ""
    missing: str = ""
    """What this machine lacks for the way, which was not tried."""


def main() -> int:
    """Try the ways; 1 when one failed, or one that was named cannot be tried."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--root", type=Path, help="a tar of a clean root, made when it is absent")
    parser.add_argument("--json", type=Path, help="also write the times to this file")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{one.name:12} {one.says}" for one in WAYS))
        return 0
    unknown = {*options.ways} - {one.name for one in WAYS}
    if unknown or os.geteuid() != 0:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "needs root")
    wanted = [one for one in WAYS if one.name in (options.ways or _USUAL)]
    if any(one.boots for one in wanted) and shutil.which("systemd-nspawn") is None:
        parser.error("needs systemd-nspawn: apt-get install systemd-container")
    with tempfile.TemporaryDirectory(prefix="lading-root-", dir=options.directory) as folder:
        archive = options.root or Path(folder) / "root.tar"
        if not archive.exists():
            _make_root(archive)
        done = [_try(one, archive, Path(folder) / one.name) for one in wanted]
    print(_table(done))
    if options.json:
        rows = [{"way": one.way.name, "packages": one.packages, "install": one.install,
                 "first_result": one.check, "failed": one.failed, "missing": one.missing}
                for one in done]  # fmt: skip
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(one.failed or (one.missing and options.ways) for one in done) else 0


_USUAL = tuple(one.name for one in WAYS if one.name != "test")


def _make_root(archive: Path) -> None:
    lines = Path("/etc/os-release").read_text().splitlines()
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    command = ["mmdebstrap", "-q", "--variant=minbase", "--include=ca-certificates"]
    subprocess.run([*command, release["VERSION_CODENAME"].strip('"'), archive], check=True)


_APT = "apt-get install -qq --no-install-recommends"


def _try(way: Way, archive: Path, root: Path) -> Timed:
    print(f"== {way.name}: {way.says}", file=sys.stderr, flush=True)
    python = _find_python(way.python) if way.python else None
    if way.python and python is None:
        return Timed(way, missing=f"no Python {way.python} of pyenv or uv")
    root.mkdir()
    try:
        _prepare(archive, root)
        if python is not None:
            _copy_python(python, root)
        timed = Timed(way)
        commands = {
            "packages": f"apt-get update -qq; {_APT} {way.packages} >/dev/null",
            "install": way.install,
            "check": way.check,
        }
        for part, command in commands.items():
            began = time.monotonic()
            as_user = way.user and part != "packages"
            if way.boots and part == "check":
                code = _run_booted(root, command, patience=way.patience)
            else:
                code = _run(root, f"PYTHON={python}\n{command}", as_user=as_user,
                            patience=way.patience)  # fmt: skip
            if code:
                return replace(timed, failed=part)
            timed = replace(timed, **{part: time.monotonic() - began})
        if timed.check > way.check_limit:
            failed = f"the first result takes more than {way.check_limit:.0f} s"
            return replace(timed, failed=failed)
        return timed
    finally:
        shutil.rmtree(root)


def _prepare(archive: Path, root: Path) -> None:
    """Unpack the root; the distributions, the checkout and a user go into it."""
    subprocess.run(["tar", "xf", archive, "-C", root, "--exclude=./dev/*"], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    # The site's own certificates, and those of the distribution.
    for path in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy(path, root / "usr/local/share/ca-certificates")
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    shutil.copytree(ROOT / "dist", root / "dist")
    (root / "src").mkdir()
    # Files that git knows, as a clone has them, changes included.
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(root / "src")],
                   input=listed.stdout, cwd=ROOT, check=True)  # fmt: skip
    # Podman's own default is above what some machines allow (RLIMIT_NPROC).
    (root / "etc/containers").mkdir(exist_ok=True)
    (root / "etc/containers/containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]\n'
    )
    script = "update-ca-certificates >/dev/null 2>&1; useradd -m -s /bin/bash ann"
    assert _run(root, script, as_user=False, patience=60) == 0


def _find_python(version: str) -> Path | None:
    """The newest Python of a version that pyenv or uv has installed for this user."""
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    programs = [*pyenv.glob(f"{version}.*/bin/python3"),
                *uv.glob(f"cpython-{version}.*/bin/python3")]  # fmt: skip
    return max(programs, key=lambda path: path.stat().st_mtime, default=None)


def _copy_python(program: Path, root: Path) -> None:
    """Copy a Python to the same path in the root, which its libraries may name, for all users."""
    prefix = program.parents[1]
    target = root / prefix.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Its compiled modules go with it: an ordinary user cannot write them there.
    unneeded = shutil.ignore_patterns("test", "site-packages", "*.a")
    shutil.copytree(prefix, target, symlinks=True, ignore=unneeded)
    for parent in target.relative_to(root).parents:
        (root / parent).chmod(0o755)


# The namespaces end with the command, and everything in them. Not chroot: a process in one may make
# no user namespace, which containers without root need.
_ENTER = """
mount --bind "$0" "$0" && cd "$0"
mount --rbind /dev dev && mount --rbind /sys sys && mount -t proc proc proc
mount -t tmpfs tmpfs run && mkdir -p run/user/1000/podman
chown -R 1000:1000 run/user/1000 && chmod 700 run/user/1000
pivot_root . mnt && umount -l mnt
exec su - "$1" -w "$3" -s /bin/bash -c "set -e
$2"
"""


def _run(root: Path, command: str, *, as_user: bool, patience: float) -> int:
    """Run a command in the root; its exit code. Output goes to standard error."""
    environ = {name: os.environ[name] for name in CARRIED if name in os.environ}
    environ |= {"PATH": os.environ["PATH"], "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8",
                "PIP_CERT": CERTIFICATES, "SSL_CERT_FILE": CERTIFICATES,
                "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}  # fmt: skip
    kept = ",".join(name for name in environ if name != "PATH")
    arguments = [str(root), "ann" if as_user else "root", command, kept]
    try:
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
             "sh", "-c", _ENTER, *arguments],
            env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=patience, check=False,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124


def _run_booted(root: Path, command: str, *, patience: float) -> int:
    """Boot the root with systemd, and run a command there; its exit code."""
    (root / "usr/sbin/policy-rc.d").unlink()
    nspawn = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
              "--capability=all", "--console=pipe", "--directory", str(root)]  # fmt: skip
    # Its filter of system calls and its read-only files of the kernel refuse what makes containers.
    environ = os.environ | {"SYSTEMD_SECCOMP": "0", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"}
    with subprocess.Popen(
        nspawn, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as machine:
        try:
            first = _first_process(machine.pid)
            try:
                return _run_inside(first, command, patience=patience)
            finally:
                # The machine ends with its first process; without it nspawn ends too.
                os.kill(first, signal.SIGKILL)
        finally:
            machine.wait(30)


def _run_inside(first: int, command: str, *, patience: float) -> int:
    inside = ["nsenter", "--target", str(first), "--all", "--", "env", "-i", "HOME=/root",
              "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8",
              "bash", "-e", "-c"]  # fmt: skip
    script = f"systemctl is-system-running --wait || systemctl --failed\n{command}"
    try:
        return subprocess.run(
            [*inside, script],
            stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=patience, check=False,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124


def _first_process(keeper: int) -> int:
    """The number of systemd's first process in the root, once it runs."""
    until = time.monotonic() + 60
    children = Path(f"/proc/{keeper}/task/{keeper}/children")
    while time.monotonic() < until:
        for child in children.read_text().split():
            grown = Path(f"/proc/{child}/task/{child}/children").read_text().split()
            for pid in (child, *grown):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return int(pid)
        time.sleep(0.2)
    raise SystemExit("systemd does not start in the root")


def _table(done: list[Timed]) -> str:
    lines = ["| way | packages of Debian | installing | first result | |", "|---|---|---|---|---|"]
    for one in done:
        times = (one.packages, one.install, one.check)
        cells = [one.way.says, *(f"{value:.1f} s" if value else "" for value in times)]
        outcome = f"FAILED: {one.failed}" if one.failed else "works"
        cells.append(f"left out: {one.missing}" if one.missing else outcome)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
