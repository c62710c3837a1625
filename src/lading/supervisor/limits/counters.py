"""Resource use of a container: counters of the kernel.

Counters of processes are read from control groups of version 1 or 2, and from /proc. Each function
returns numbers by the name that follows them in the log (`usage_samples`); unreadable ones are left
out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lading.supervisor.limits.cgroup import (
    Hierarchy,
    read_text,
)

PROC = Path("/proc")
# Clock ticks in a second (proc_pid_stat(5)).
_TICKS = os.sysconf("SC_CLK_TCK")
# Microseconds: the kernel's default period of a CPU quota (sched-bwc, cgroup-v2).
_PERIOD = 100_000
_PAGE = os.sysconf("SC_PAGE_SIZE")
Values = dict[str, float]


class CgroupCounters(msgspec.Struct):
    """Directories with the counters of one container, by controller."""

    version: int
    paths: Mapping[str, Path]


def find_folders(pid: int, hierarchy: Hierarchy, *, proc: Path = PROC) -> CgroupCounters | None:
    """The cgroup directories of a process; None when it shares them with this process, or has
    ended.
    """
    folders, own = (
        own_folders(str(pid), hierarchy, proc=proc),
        own_folders("self", hierarchy, proc=proc),
    )
    if folders is None or own is None:
        return None
    # The kernel shows an ended process in the root of each hierarchy until its parent has waited
    # for it (cgroups(7)); the counters there are those of the whole machine.
    paths = {
        name: path
        for name, path in folders.paths.items()
        if path not in (own.paths.get(name), hierarchy.roots[name])
    }
    return CgroupCounters(hierarchy.version, paths) if paths else None


def own_folders(process: str, hierarchy: Hierarchy, *, proc: Path = PROC) -> CgroupCounters | None:
    """The cgroup directories of a process, by its number or `self`, shared or not; None when there
    are none.
    """
    listed = _listed(read_text(proc / process / "cgroup"))
    keys = {name: (name if hierarchy.version == 1 else "") for name in hierarchy.roots}
    paths = {
        name: root / listed[keys[name]].lstrip("/")
        for name, root in hierarchy.roots.items()
        if keys[name] in listed
    }
    return CgroupCounters(hierarchy.version, paths) if paths else None


def read_memory(folders: CgroupCounters) -> Values:
    """Bytes and faults: cache, swap, pgmajfault, rss. Empty without a memory controller."""
    folder = folders.paths.get("memory")
    table = _table(folder / "memory.stat") if folder else {}
    if not folder or not table:
        return {}
    # "total_" includes subgroups; only present with hierarchical accounting.
    if folders.version == 1:
        return {
            name: table.get(f"total_{name}", table.get(name, 0))
            for name in ("cache", "swap", "pgmajfault", "rss")
        }
    swap, current = (_number(folder / file) for file in ("memory.swap.current", "memory.current"))
    return {"swap": swap, "pgmajfault": table.get("pgmajfault", 0), "rss": current}


def read_peak(folders: CgroupCounters) -> float:
    """Maximum of used memory, page cache included; 0 when the kernel does not report it."""
    folder = folders.paths.get("memory")
    return (
        _number(folder / ("memory.max_usage_in_bytes" if folders.version == 1 else "memory.peak"))
        if folder
        else 0.0
    )


def read_cpu(folders: CgroupCounters) -> Values:
    """Seconds of user and system time, and the number of usable CPUs."""
    cpu, cpus = folders.paths.get("cpu"), float(len(os.sched_getaffinity(0)))
    if folders.version == 1 and "cpuacct" in folders.paths:
        table = _table(folders.paths["cpuacct"] / "cpuacct.stat")
        limit = _quota_of_version_1(cpu) if cpu is not None else 0
        used = {"user": table.get("user", 0) / _TICKS, "sys": table.get("system", 0) / _TICKS}
    elif folders.version == 2 and cpu is not None:
        table = _table(cpu / "cpu.stat")
        limit = _quota_of_version_2(cpu)
        used = {"user": table.get("user_usec", 0) / 1e6, "sys": table.get("system_usec", 0) / 1e6}
    else:
        return {}
    return {**used, "cpus": min(cpus, limit) if limit > 0 else cpus}


def _quota_of_version_1(folder: Path) -> float:
    """CPUs that the quota allows; 0 for no quota."""
    quota = _number(folder / "cpu.cfs_quota_us")
    # -1: no quota.
    return quota / (_number(folder / "cpu.cfs_period_us") or _PERIOD) if quota > 0 else 0


def _quota_of_version_2(folder: Path) -> float:
    """CPUs that the quota allows; 0 for no quota."""
    first, *more = read_text(folder / "cpu.max").split() or ["max"]
    return float(first) / float(more[0] if more else _PERIOD) if first != "max" else 0


def read_disks(folders: CgroupCounters) -> dict[str, Values]:
    """Bytes written and read, by device number."""
    disks: dict[str, Values] = {}
    folder = folders.paths.get("blkio") or folders.paths.get("io")
    if folder is None:
        return disks
    if folders.version == 2:
        for line in read_text(folder / "io.stat").splitlines():
            device, *pairs = line.split()
            counts = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            disks[device] = {
                "write": float(counts.get("wbytes", 0)),
                "read": float(counts.get("rbytes", 0)),
            }
        return disks
    for line in read_text(folder / "blkio.throttle.io_service_bytes").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in ("Read", "Write"):
            disks.setdefault(parts[0], {"write": 0.0, "read": 0.0})[parts[1].lower()] = float(
                parts[2]
            )
    return disks


def read_network(folders: CgroupCounters, *, proc: Path = PROC) -> dict[str, Values]:
    """Bytes sent and received by interface, from a process of the container in a network namespace
    of its own.
    """
    folder = next(iter(folders.paths.values()))
    for pid in read_text(folder / "cgroup.procs").split():
        # The process has ended.
        with contextlib.suppress(OSError):
            if (proc / pid / "ns/net").readlink() != (proc / "self/ns/net").readlink():
                return read_interfaces(pid, proc=proc)
    return {}


def read_interfaces(process: str, *, proc: Path = PROC) -> dict[str, Values]:
    """Bytes sent and received by interface except `lo`, in the network of a process. Raises OSError
    when it has ended.
    """
    interfaces: dict[str, Values] = {}
    # Two lines of headings (proc_pid_net(5)).
    for line in (proc / process / "net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        counts = numbers.split()
        if name.strip() != "lo":
            interfaces[name.strip()] = {"tx": float(counts[8]), "rx": float(counts[0])}
    return interfaces


def read_space(path: Path) -> Values:
    """Bytes of the file system with the container's scratch."""
    found = os.statvfs(path)
    # Reserved blocks count as used, as df(1) shows them.
    total = found.f_blocks * found.f_frsize
    available = found.f_bavail * found.f_frsize
    return {"available": available, "used": total - found.f_bfree * found.f_frsize, "total": total}


def read_processes(pids: Iterable[int], *, proc: Path = PROC) -> tuple[Values, Values]:
    """Memory and CPU time of processes, for machines without control groups: as `read_memory` and
    `read_cpu`.

    Use of ended children counts once their parent has waited for them.
    """
    faults, rss, user, system = 0.0, 0.0, 0.0, 0.0
    for pid in pids:
        # Fields 12, 14 to 17 and 24 of proc_pid_stat(5), which counts from the pid; these from the
        # state.
        fields = _stat(pid, proc)
        if fields:
            faults += float(fields[9])
            rss += float(fields[21]) * _PAGE
            user += (float(fields[11]) + float(fields[13])) / _TICKS
            system += (float(fields[12]) + float(fields[14])) / _TICKS
    return {"pgmajfault": faults, "rss": rss}, {
        "user": user,
        "sys": system,
        "cpus": float(len(os.sched_getaffinity(0))),
    }


def read_rss(pid: int, *, proc: Path = PROC) -> float:
    """Resident bytes of a process; 0 when it has ended."""
    fields = _stat(pid, proc)
    return float(fields[21]) * _PAGE if fields else 0.0


def descendants(pid: int, *, proc: Path = PROC) -> list[int]:
    """A process and its descendants."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += map(int, read_text(proc / str(one) / "task" / str(one) / "children").split())
    return found


def processes(folders: CgroupCounters) -> list[int]:
    """The processes of a container."""
    folder = next(iter(folders.paths.values()))
    return [int(number) for number in read_text(folder / "cgroup.procs").split()]


def _stat(pid: int, proc: Path) -> list[str]:
    """Fields of /proc/PID/stat after the name, starting with the state."""
    return read_text(proc / str(pid) / "stat").rpartition(")")[2].split()


def _listed(content: str) -> dict[str, str]:
    """Path by controller in /proc/PID/cgroup; version 2 is listed under ""."""
    paths: dict[str, str] = {}
    for line in content.splitlines():
        _, names, path = line.split(":", 2)
        paths.update((name, path) for name in names.split(","))
    return paths


def _number(path: Path) -> float:
    text = read_text(path).strip()
    return float(text) if text.lstrip("-").isdigit() else 0.0


def _table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
