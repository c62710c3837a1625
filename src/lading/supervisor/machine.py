"""Facts about this machine for the container's log and for containers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

# Places where distributions keep the bundle.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_MIB = 1 << 20


def certificates(bundles: Iterable[str] = _BUNDLES) -> str | None:
    """The machine's bundle of certificate authorities, for containers that call the API."""
    return next((one for one in bundles if Path(one).exists()), None)


def describe_machine(scratch: Path) -> bytes:
    """Contents of node-info.txt: kernel, processors, memory, space and inodes of the scratch file
    system.
    """
    blocks = (
        ("Host Information", " ".join(os.uname())),
        ("CPU Information", _processors()),
        ("Memory Information", _read("/proc/meminfo")),
        ("Disk Space", _space(("/", str(scratch)))),
        ("Disk INodes", _inodes(("/", str(scratch)))),
    )
    return "\n".join(f"{title}\n{text.rstrip()}\n" for title, text in blocks).encode()


# The file is some kilobytes for each processor and does not change.
@cache
def _processors() -> str:
    return _read("/proc/cpuinfo")


def mount_table(path: str = "/proc/mounts") -> str:
    """The mount table of this process, or the reason why it cannot be read."""
    return _read(path)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError as error:
        return f"{path}: {error.strerror}"


def _space(paths: tuple[str, ...]) -> str:
    lines = ["MiB-blocks Used Available Path"]
    for path in paths:
        found = os.statvfs(path)
        sizes = (found.f_blocks, found.f_blocks - found.f_bfree, found.f_bavail)
        lines.append(" ".join([*(str(size * found.f_frsize // _MIB) for size in sizes), path]))
    return "\n".join(lines)


def _inodes(paths: tuple[str, ...]) -> str:
    lines = ["Inodes Used Free Path"]
    for path in paths:
        found = os.statvfs(path)
        lines.append(f"{found.f_files} {found.f_files - found.f_ffree} {found.f_ffree} {path}")
    return "\n".join(lines)
