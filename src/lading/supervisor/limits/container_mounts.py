"""Where the files of a running container are on the machine's disks, by its mount table.

A container writes to its own mounts, to the upper directory of the overlay that is its root, and,
where a daemon made it, to places that the daemon has added: /etc/hosts and the like, and the
volumes that its image declares. The kernel's table names all of them, so that a daemon need not
report where it keeps the changes of a container.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from lading.supervisor.linux import unescape

_PROC: Final = Path("/proc")
# File systems that take no space of a disk; memory counts for the container's RAM.
_WITHOUT_DISK: Final = frozenset(
    {"cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "proc", "ramfs", "sysfs", "tmpfs"}
)


class ContainerMount(msgspec.Struct, frozen=True):
    """A line of a mount table (proc_pid_mountinfo(5)).

    `device` is MAJOR:MINOR, `root` the directory or file of the file system that is mounted at
    `point`.
    """

    device: str
    root: str
    point: str
    is_writable: bool
    kind: str
    options: tuple[str, ...]

    @property
    def number(self) -> int:
        """The device as `os.stat` gives it."""
        major, minor = self.device.split(":")
        return os.makedev(int(major), int(minor))

    @property
    def upper(self) -> str:
        """The upper directory of an overlay, "" for any other mount."""
        if self.kind != "overlay":
            return ""
        return next(
            (option.removeprefix("upperdir=") for option in self.options if "upperdir=" in option),
            "",
        )


def parse_mounts(table: str) -> list[ContainerMount]:
    """The lines of a mount table."""
    mounts = []
    for line in table.splitlines():
        fields = line.split(" ")
        # The number of optional fields varies; the type follows "-".
        kind, _, options = fields[fields.index("-", 6) + 1 :][:3]
        mounts.append(
            ContainerMount(
                device=fields[2],
                root=unescape(fields[3]),
                point=unescape(fields[4]),
                is_writable="rw" in fields[5].split(",") and "rw" in options.split(","),
                kind=kind,
                options=tuple(unescape(option) for option in options.split(",")),
            )
        )
    return mounts


def tables_of(pids: Iterable[int], *, proc: Path = _PROC) -> Iterator[list[ContainerMount]]:
    """The mount tables of processes, one for each mount namespace other than this process's."""
    namespaces = {_namespace(proc / "self")}
    for pid in pids:
        # The process has ended.
        with contextlib.suppress(OSError):
            namespace = _namespace(proc / str(pid))
            if namespace not in namespaces:
                table = read_table(proc / str(pid))
                namespaces.add(namespace)
                yield table


def read_table(process: Path = _PROC / "self") -> list[ContainerMount]:
    """The mount table of a process, by its directory in /proc. Raises OSError."""
    return parse_mounts((process / "mountinfo").read_text(errors="surrogateescape"))


def _namespace(process: Path) -> Path:
    return (process / "ns" / "mnt").readlink()


def layers_of(
    tables: Iterable[Iterable[ContainerMount]], *, proc: Path = _PROC
) -> tuple[Path, ...]:
    """Upper directories of the overlays that are the roots of containers, where this machine sees
    them.
    """
    found: dict[Path, None] = {}
    for mount in (mount for table in tables for mount in table if mount.point == "/"):
        upper = Path(mount.upper)
        if upper.is_absolute() and upper.is_dir() and not upper.is_relative_to(proc):
            found[upper] = None
    return tuple(found)


def roots_of(tables: Iterable[Iterable[ContainerMount]]) -> set[int]:
    """Devices of the overlays that are the roots of containers: those that `os.stat` gives for a
    file in them.
    """
    return {
        mount.number
        for table in tables
        for mount in table
        if mount.point == "/" and mount.kind == "overlay"
    }


def added_places(
    tables: Iterable[Iterable[ContainerMount]], own: Iterable[ContainerMount], *, run: Path
) -> tuple[Path, ...]:
    """Files and directories on disks of the machine that containers may write to, outside of the
    run directory: those that a daemon has mounted. `own` is the table of this process.
    """
    disks = [mount for mount in own if mount.kind not in _WITHOUT_DISK]
    added: dict[Path, None] = {}
    for mount in (mount for table in tables for mount in table):
        if mount.point == "/" or not mount.is_writable or mount.kind in _WITHOUT_DISK:
            continue
        path = _on_machine(mount, disks)
        if path is not None and not path.is_relative_to(run):
            added[path] = None
    return tuple(added)


def _on_machine(mount: ContainerMount, own: Iterable[ContainerMount]) -> Path | None:
    """The path by which this process sees the root of a container's mount, None without one."""
    for disk in own:
        if disk.device == mount.device and Path(mount.root).is_relative_to(disk.root):
            place = Path(disk.point, Path(mount.root).relative_to(disk.root))
            if place.exists():
                return place
    return None
