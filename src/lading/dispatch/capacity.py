"""What this machine offers to containers: what the configuration says, else the machine within its own cgroup.

The dispatcher may itself run in a container or a slice. The smallest limit on the way from its own cgroup to the root
counts, in either cgroup version; on a hybrid machine both are read (lab 1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lading.core.sizing import Resources

_ROOT = Path("/")
# Version 1 writes "no limit" as a number near 2**63.
_NO_LIMIT = 1 << 60


def measure(*, vcpus: int = 0, ram: int = 0, root: Path = _ROOT, processors: int = 0) -> Resources:
    """The capacity in virtual CPUs and bytes; `vcpus` and `ram` other than 0 are taken as they are.

    `root` is where /proc and /sys are found, `processors` how many the process may use (0: ask the kernel).
    """
    processors = processors or len(os.sched_getaffinity(0))
    return Resources(
        vcpus or max(1, min([processors, *_cpu_limits(root)])),
        ram or min([_total_memory(root), *_memory_limits(root)]),
    )


def _total_memory(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(_read(folder / name))
            if limit is not None and limit < _NO_LIMIT:
                yield limit


def _cpu_limits(root: Path) -> Iterator[int]:
    for folder in _folders(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        yield from _processors(quota, period)
        yield from _processors(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _processors(quota: str, period: str) -> Iterator[int]:
    most, each = _number(quota), _number(period)
    if most and each and most > 0:
        yield most // each


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The directories of this process's cgroup and of those above it, in each hierarchy that may limit `controller`."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, names, path = line.split(":", 2)
        if number == "0":
            bases = [mount, mount / "unified"]
        elif controller in names.split(","):
            bases = [mount / controller, mount / names]
        else:
            continue
        for base in bases:
            folder = base / path.lstrip("/")
            while folder != base:
                yield folder
                folder = folder.parent
            yield base


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() else None
