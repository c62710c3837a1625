"""Resource use of a container: counters of the kernel, and samples for the log.

Counters of processes are read from control groups of version 1 or 2, and from /proc. Each function
returns numbers by the name that follows them in the log; unreadable ones are left out.

`UsageSampler` writes `crunchstat.txt` and `hoststat.txt`. Each line is a kind, then pairs of value
and unit; from the second sample on with the growth since:

    mem 1048576 cache 0 swap 0 pgmajfault 524288 rss
    cpu 0.1500 user 0.0200 sys 2 cpus -- interval 10.0000 seconds 0.1500 user 0.0200 sys

`crunchstat.txt` covers the container's control group, or its processes on a machine without one.
`hoststat.txt` covers the supervisor's own control group and the memory of the processes that serve
the container; a container of less than a second has none. The log reports when memory passes 90, 95
and 99 % of the request, and the totals and maxima at the end, in the words of Arvados.

Source: docs/spec/containers, section Log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lading.supervisor.limits.cgroup import (
    Hierarchy,
    find_hierarchy,
    read_text,
)
from lading.supervisor.logs import HOST, USAGE, Log

PROC = Path("/proc")
# Clock ticks in a second (proc_pid_stat(5)).
_TICKS = os.sysconf("SC_CLK_TCK")
# Microseconds: the kernel's default period of a CPU quota (sched-bwc, cgroup-v2).
_PERIOD = 100_000
_PAGE = os.sysconf("SC_PAGE_SIZE")
Values = dict[str, float]


@dataclass(slots=True)
class CgroupCounters:
    """Directories with the counters of one container, by controller."""

    version: int
    paths: Mapping[str, Path]


def find_folders(pid: int, hierarchy: Hierarchy, *, proc: Path = PROC) -> CgroupCounters | None:
    """The cgroup directories of a process; None when it shares them with this process, or has
    ended.
    """
    found, own = (
        own_folders(str(pid), hierarchy, proc=proc),
        own_folders("self", hierarchy, proc=proc),
    )
    if found is None or own is None:
        return None
    # The kernel shows an ended process in the root of each hierarchy until its parent has waited
    # for it (cgroups(7)); the counters there are those of the whole machine.
    paths = {
        name: path
        for name, path in found.paths.items()
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
    return [int(one) for one in read_text(folder / "cgroup.procs").split()]


def _stat(pid: int, proc: Path) -> list[str]:
    """Fields of /proc/PID/stat after the name, starting with the state."""
    return read_text(proc / str(pid) / "stat").rpartition(")")[2].split()


def _listed(text: str) -> dict[str, str]:
    """Path by controller in /proc/PID/cgroup; version 2 is listed under ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update((name, path) for name in names.split(","))
    return found


def _number(path: Path) -> float:
    text = read_text(path).strip()
    return float(text) if text.lstrip("-").isdigit() else 0.0


def _table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


THIS_PROCESS = "lading-supervisor"
# Percent of the requested memory, as in Arvados.
_THRESHOLDS = (90, 95, 99)
# Seconds between two samples of memory.
_SAMPLE = 1.0
# Seconds until the first sample.
_FIRST = 0.2
# Seconds between two looks for the container's process, and the number of looks.
_LOOK = 0.05
# One second in all: crun joins the group within milliseconds, so a process without one by then has
# none, and is sampled by itself.
_LOOKS = 20
# Kinds whose values only grow; their growth is shown.
_CUMULATIVE = frozenset({"cpu", "blkio", "net"})
Samples = Mapping[str, Values]


@dataclass(slots=True)
class Lines:
    """One file of samples."""

    log: Log
    name: str
    last: Samples = field(default_factory=dict)
    _last_time: float = 0.0

    def write(self, samples: Samples, now: float) -> None:
        """Add one line of each kind; `now` is monotonic, in seconds."""
        lines = [self._line(name, values, now) for name, values in samples.items() if values]
        self.log.stream(self.name).write("".join(lines).encode())
        self.last, self._last_time = samples, now
        self.log.grown.set()

    def _line(self, name: str, values: Values, now: float) -> str:
        text = f"{name} " + " ".join(f"{_show(value)} {key}" for key, value in values.items())
        before = self.last.get(name)
        if before and name.partition(":")[0] in _CUMULATIVE:
            added = " ".join(
                f"{_show(values[key] - before.get(key, 0))} {key}"
                for key in values
                if key != "cpus"
            )
            text += f" -- interval {now - self._last_time:.4f} seconds {added}"
        return text + "\n"


@dataclass(slots=True)
class UsageSampler:
    """Samples one container until `finish`."""

    log: Log
    scratch: Path
    ram: int
    clock: Callable[[], float]
    """Seconds, monotonic."""
    folders: CgroupCounters | None = None
    helpers: dict[str, int] = field(default_factory=dict)
    """Processes that serve the container, beside this one: pid by name."""
    sample: float = _SAMPLE
    """Seconds between two looks at the memory."""
    look: float = _LOOK
    """Seconds between two looks for the container's processes, until they are there."""
    used: Values = field(default_factory=dict)
    """After `finish`: `memory`, bytes at most (with the page cache, where the kernel counts it);
    `cpu`, seconds. Unknown values are left out.
    """
    _pid: int = 0
    lines: Lines = field(init=False)
    _host: Lines = field(init=False)
    _most: dict[str, float] = field(default_factory=dict)
    _most_of: dict[str, float] = field(default_factory=dict)
    _fullest: Values = field(default_factory=dict)
    _warned: int = 0

    def __post_init__(self) -> None:
        self.lines, self._host = Lines(self.log, USAGE), Lines(self.log, HOST)

    def look_at(self, pid: int | None, *, mounts: str) -> None:
        """Find the control group of a process that has just begun, if it has one of its own."""
        if pid:
            self.folders = find_folders(pid, find_hierarchy(mounts))

    async def run(
        self, find_pid: Callable[[], int | None], *, interval: float, mounts: str
    ) -> None:
        """Sample until cancelled: memory each second, everything each `interval` seconds."""
        hierarchy = find_hierarchy(mounts)
        await self._find(find_pid, hierarchy)
        host: CgroupCounters | None = None
        # For a shorter container the totals at its end suffice.
        await asyncio.sleep(_FIRST)
        while True:
            self.report()
            until = self.clock() + interval
            while self.clock() < until:
                await asyncio.sleep(min(self.sample, max(0.0, until - self.clock())))
                self.watch_memory()
                if host is None:
                    host = own_folders("self", hierarchy) or CgroupCounters(hierarchy.version, {})
                    self.report_host(host)
            if host is not None:
                self.report_host(host)

    def watch_memory(self) -> None:
        """Record the maximum of memory, and warn once each time it passes 90, 95 and 99 % of the
        request.
        """
        self._note(self._memory())

    def report(self) -> None:
        """Write one line of each kind about the container."""
        if self.folders is None and not self._pid:
            return
        samples = self._sample()
        self._note(samples["mem"])
        if samples["statfs"]["used"] >= self._fullest.get("used", 0):
            self._fullest = samples["statfs"]
        self.lines.write(samples, self.clock())

    def report_host(self, folders: CgroupCounters) -> None:
        """Write one line of each kind about the processes that serve the container."""
        memory = {
            name: read_rss(pid)
            for name, pid in {THIS_PROCESS: os.getpid(), **self.helpers}.items()
            if pid
        }
        for name, size in memory.items():
            self._most_of[name] = max(self._most_of.get(name, 0), size)
        samples: dict[str, Values] = {"mem": read_memory(folders)}
        # The value precedes the name, as everywhere, but with one pair for each process.
        samples["procmem"] = memory
        samples["cpu"] = read_cpu(folders)
        samples |= {f"blkio:{name}": values for name, values in read_disks(folders).items()}
        # Without /proc/net the other counters are reported all the same.
        with contextlib.suppress(OSError):
            samples |= {f"net:{name}": values for name, values in read_interfaces("self").items()}
        samples["statfs"] = read_space(self.scratch)
        self._host.write(samples, self.clock())

    def finish(self) -> None:
        """Report a last time while the counters still exist, and write totals and maxima to the
        supervisor's log.
        """
        if self.folders is None and not self._pid:
            return
        # The control group may be gone.
        with contextlib.suppress(OSError):
            self.report()
        cpu = self.lines.last.get("cpu")
        peak = read_peak(self.folders) if self.folders is not None else 0.0
        memory = peak or self._most.get("rss", 0.0)
        self.used = {
            **({"memory": memory} if memory else {}),
            **({"cpu": cpu["user"] + cpu["sys"]} if cpu else {}),
        }
        self.log.say("\n".join(self.summary()))

    async def _find(self, find_pid: Callable[[], int | None], hierarchy: Hierarchy) -> None:
        """Wait until the container's control group exists, or its process when it has no group of
        its own.
        """
        looks = 0
        while self.folders is None:
            pid = find_pid()
            if pid:
                self.folders = find_folders(pid, hierarchy)
                # crun joins its group a moment after its start.
                looks += 1
                if looks > _LOOKS or not hierarchy.roots:
                    self._pid = pid
                    return
            await asyncio.sleep(self.look)

    def _sample(self) -> dict[str, Values]:
        samples: dict[str, Values]
        if self.folders is None:
            memory, cpu = read_processes(descendants(self._pid))
            samples = {"mem": memory, "cpu": cpu}
        else:
            samples = {
                "mem": read_memory(self.folders),
                "cpu": read_cpu(self.folders),
            }
            samples |= {
                f"blkio:{name}": values for name, values in read_disks(self.folders).items()
            }
            samples |= {
                f"net:{name}": values for name, values in read_network(self.folders).items()
            }
        samples["statfs"] = read_space(self.scratch)
        return samples

    def _memory(self) -> Values:
        if self.folders is not None:
            return read_memory(self.folders)
        return read_processes(descendants(self._pid))[0] if self._pid else {}

    def _note(self, memory: Values) -> None:
        for name, value in memory.items():
            self._most[name] = max(self._most.get(name, 0), value)
        rss = memory.get("rss", 0)
        percent = 100 * rss / self.ram if self.ram else 0
        passed = [one for one in _THRESHOLDS if self._warned < one <= percent]
        if passed:
            # Warned about once each.
            self._warned = passed[-1]
            self.log.say(
                f"Container using over {passed[-1]}% of memory (rss {rss:.0f} of {self.ram} bytes)"
            )

    def summary(self) -> list[str]:
        """Totals and maxima of the last samples, one sentence each."""
        last, said = self.lines.last, []
        if cpu := last.get("cpu"):
            said.append(
                f"Total CPU usage was {cpu['user']:f} user and {cpu['sys']:f} sys"
                f" on {cpu['cpus']:.2f} CPUs"
            )
        said += [
            f"Total disk I/O on {device} was {values['write']:.0f} bytes written and "
            f"{values['read']:.0f} bytes read"
            for device, values in _of_kind(last, "blkio")
        ]
        if total := self._fullest.get("total"):
            used = self._fullest["used"]
            said.append(
                f"Maximum disk usage was {100 * used / total:.0f}%, {used:.0f}/{total:.0f} bytes"
            )
        for name, value in self._most.items():
            amount = f"{value:.0f}"
            if name == "rss" and self.ram:
                amount = f"{100 * value / self.ram:.0f}%, {amount}/{self.ram}"
            said.append(f"Maximum container memory {name} usage was {amount} bytes")
        if self.folders is not None and (peak := read_peak(self.folders)):
            said.append(f"Maximum container memory usage was {peak:.0f} bytes, page cache included")
        said += [
            f"Total network I/O on {interface} was {values['tx']:.0f} bytes written and "
            f"{values['rx']:.0f} bytes read"
            for interface, values in _of_kind(last, "net")
        ]
        said += [
            f"Maximum {name} memory rss usage was {size:.0f} bytes"
            for name, size in self._most_of.items()
        ]
        return said


def _show(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0").rstrip(".")


def _of_kind(samples: Mapping[str, Values], kind: str) -> Iterator[tuple[str, Values]]:
    """Samples with the name `kind:device`, by device."""
    for name, values in samples.items():
        found, _, device = name.partition(":")
        if found == kind:
            yield device, values
