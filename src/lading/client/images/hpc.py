"""The image of HPC containers: MPI, sshd and the daemon, from Debian packages of this machine.

It has two layers: the programs with their needs (`from_host`), and the parts of a cluster
container: its first process, a configuration of sshd without prompts, accounts with bash as shell
(it reads `.bashrc` when sshd starts it), and the daemon as one file. Host keys are made in each
container at its start, so that no image contains a secret.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from lading.client.images.archive import PATH, ImageParts, NormalImage, make_config, write_archive
from lading.client.images.from_host import SourceHost, from_host
from lading.client.images.layer_writing import LayerEntry, write_layer
from lading.client.images.steps import UNWATCHED, ImageSteps

INIT = "/usr/local/sbin/hpcaas-init"
DAEMON = "/usr/local/sbin/hpcaas-daemon"
PROGRAMS = (
    "/usr/bin/python3", "/usr/sbin/sshd", "awk", "bash", "cat", "cut", "date", "env", "head",
    "hostname", "id", "kill", "ls", "mkdir", "mktemp", "mpirun", "orted", "ps", "rm", "seq",
    "setsid", "sleep", "ssh", "ssh-keygen", "sort", "tail", "timeout", "touch", "tr", "uname", "wc",
)  # fmt: skip
PLUGINS = (
    "libopenmpi3",
    "openmpi-common",
    "libpmix2",
    "libhwloc15",
    "libhwloc-plugins",
    "libpython3-stdlib",
)
_OWN = "/hpcaas/daemon"
# The shell script of process 1. Secrets are moved from the environment into files first, then the
# script starts itself again without them.
_INIT = f"""#!/bin/sh
# The first process of the container: keeps sshd and the daemon running, and waits for orphans.
if [ -n "${{TLS_PRIVATE_KEY:-}}" ]; then
    # The daemon reads them from files, so that no environment in the container shows them.
    mkdir -p /run/sshd /hpcaas && (
        umask 077
        mkdir -p {_OWN}
        printf %s "$TLS_PUBLIC_CERT" > {_OWN}/tls_server.crt
        printf %s "$TLS_PRIVATE_KEY" > {_OWN}/tls_server.key
        printf %s "${{AUTHORIZATION:-}}" > {_OWN}/authorization
    ) && exec env -u TLS_PUBLIC_CERT -u TLS_PRIVATE_KEY -u AUTHORIZATION "$0" "$@"
fi
mkdir -p /run/sshd
[ -e /etc/ssh/hpc_host_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hpc_host_key
keep() {{ while :; do "$@"; sleep 0.2; done; }}
keep {DAEMON} &
keep /usr/sbin/sshd -D -e -f /etc/ssh/hpc_sshd_config &
trap 'exit 0' TERM INT
while :; do wait; done
"""
# StrictModes no: keys are accepted from a directory of any owner and mode. MaxStartups and
# MaxSessions: logins in progress and sessions per connection; sshd refuses more than 10 by default.
_SSHD = """HostKey /etc/ssh/hpc_host_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
PrintMotd no
MaxStartups 200
MaxSessions 200
"""
_PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\n"
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)


def build_hpc(
    programs: Sequence[str],
    folder: Path,
    *,
    host: SourceHost,
    daemon: bytes,
    steps: ImageSteps = UNWATCHED,
) -> NormalImage:
    """The image with further `programs`, in the normal form below `folder`. Raises Invalid for a
    missing program.

    `daemon`: the daemon as one file.
    """
    base = from_host([*PROGRAMS, *programs], folder, host=host, packages=PLUGINS, steps=steps)
    cluster = write_layer(_entries(daemon), folder / "cluster.tar")
    layers = (*base.layers, cluster)
    config = make_config(
        layers,
        architecture=host.architecture,
        created_by="lading image hpc",
        environment=[f"PATH={PATH}", "LANG=C.UTF-8"],
        command=[INIT],
    )
    return write_archive(
        ImageParts(config=config, layers=layers, notes=base.notes),
        folder / "image.tar",
        steps=steps,
    )


def _entries(daemon: bytes) -> list[LayerEntry]:
    programs = {INIT: _INIT.encode(), DAEMON: daemon}
    texts = {
        "/etc/ssh/hpc_sshd_config": _SSHD,
        "/etc/passwd": _PASSWD,
        "/etc/shells": "/bin/sh\n/bin/bash\n",
    }
    folders = {"/root": 0o700, "/run": 0o755, "/hpcaas": 0o755}
    # The code may run as any user.
    folders |= {"/hpcaas/results": 0o1777, "/hpcaas/shared": 0o777}
    return [
        *(
            LayerEntry(path=path, mode=stat.S_IFREG | 0o755, content=content)
            for path, content in programs.items()
        ),
        *(
            LayerEntry(path=path, mode=stat.S_IFREG | 0o644, content=content.encode())
            for path, content in texts.items()
        ),
        *(LayerEntry(path=path, mode=stat.S_IFDIR | mode) for path, mode in folders.items()),
    ]
