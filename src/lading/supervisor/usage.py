"""What a container uses: lines for `crunchstat.txt`, maxima for its log (dispatch-contract A.15).

Numbers come from the container's cgroup (version 1 or 2) and, for the network, from /proc of one of its processes.
Each kind is a line of `name`, then pairs of value and unit; from the second sample on with what was added since:

    mem 1048576 cache 0 swap 0 pgmajfault 524288 rss
    cpu 0.1500 user 0.0200 sys 2 cpus -- interval 10.0000 seconds 0.1500 user 0.0200 sys
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lading.supervisor.cgroup import Hierarchy, find_hierarchy
from lading.supervisor.logs import USAGE, Log

_THRESHOLDS = (90, 95, 99)
_SAMPLE = 1.0
_LOOK = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_CUMULATIVE = frozenset({"cpu", "blkio", "net"})
Values = dict[str, float]


@dataclass(slots=True)
class Folders:
    """Where the counters of one container are: a directory for each controller."""

    version: int
    paths: Mapping[str, Path]


def find_folders(pid: int, hierarchy: Hierarchy, *, proc: Path = Path("/proc")) -> Folders | None:
    """The cgroup directories of a process; None when it shares them with this process, or is gone."""
    try:
        theirs, ours = (proc / one / "cgroup" for one in (str(pid), "self"))
        listed, own = _listed(theirs.read_text()), _listed(ours.read_text())
    except OSError:
        return None
    keys = {name: (name if hierarchy.version == 1 else "") for name in hierarchy.roots}
    paths = {
        name: root / listed[keys[name]].lstrip("/")
        for name, root in hierarchy.roots.items()
        if keys[name] in listed and listed[keys[name]] != own.get(keys[name])
    }
    return Folders(hierarchy.version, paths) if paths else None


def read_memory(folders: Folders) -> Values:
    """Bytes and faults: cache, swap, pgmajfault, rss. Empty when there is no memory controller."""
    folder = folders.paths.get("memory")
    table = _table(folder / "memory.stat") if folder else {}
    if not folder or not table:
        return {}
    if folders.version == 1:
        return {name: table.get(f"total_{name}", table.get(name, 0)) for name in ("cache", "swap", "pgmajfault", "rss")}
    swap, current = (_number(folder / file) for file in ("memory.swap.current", "memory.current"))
    return {"swap": swap, "pgmajfault": table.get("pgmajfault", 0), "rss": current}


def read_peak(folders: Folders) -> float:
    """The most memory that was ever in use, page cache included; 0 when the kernel does not say."""
    folder = folders.paths.get("memory")
    return _number(folder / ("memory.max_usage_in_bytes" if folders.version == 1 else "memory.peak")) if folder else 0.0


def read_cpu(folders: Folders) -> Values:
    """Seconds of user and system time, and the number of CPUs that may be used."""
    cpus = float(len(os.sched_getaffinity(0)))
    if folders.version == 1 and "cpuacct" in folders.paths:
        table = _table(folders.paths["cpuacct"] / "cpuacct.stat")
        quota = _number(folders.paths["cpu"] / "cpu.cfs_quota_us") if "cpu" in folders.paths else 0
        used = {"user": table.get("user", 0) / _TICKS, "sys": table.get("system", 0) / _TICKS}
    elif folders.version == 2 and "cpu" in folders.paths:
        table = _table(folders.paths["cpu"] / "cpu.stat")
        first = _read(folders.paths["cpu"] / "cpu.max").split() or ["max"]
        quota = float(first[0]) if first[0] != "max" else 0
        used = {"user": table.get("user_usec", 0) / 1e6, "sys": table.get("system_usec", 0) / 1e6}
    else:
        return {}
    return {**used, "cpus": min(cpus, quota / 100_000) if quota > 0 else cpus}


def read_disks(folders: Folders) -> dict[str, Values]:
    """Bytes written and read, by device number."""
    disks: dict[str, Values] = {}
    folder = folders.paths.get("blkio") or folders.paths.get("io")
    if folder is None:
        return disks
    if folders.version == 2:
        for line in _read(folder / "io.stat").splitlines():
            device, *pairs = line.split()
            counts = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            disks[device] = {"write": float(counts.get("wbytes", 0)), "read": float(counts.get("rbytes", 0))}
        return disks
    for line in _read(folder / "blkio.throttle.io_service_bytes").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in ("Read", "Write"):
            disks.setdefault(parts[0], {"write": 0.0, "read": 0.0})[parts[1].lower()] = float(parts[2])
    return disks


def read_network(folders: Folders, *, proc: Path = Path("/proc")) -> dict[str, Values]:
    """Bytes sent and received by interface, as a process of the container in another network than ours sees them."""
    interfaces: dict[str, Values] = {}
    folder = next(iter(folders.paths.values()))
    for pid in _read(folder / "cgroup.procs").split():
        with contextlib.suppress(OSError):
            if (proc / pid / "ns/net").readlink() == (proc / "self/ns/net").readlink():
                continue
            for line in (proc / pid / "net/dev").read_text().splitlines()[2:]:
                name, _, numbers = line.partition(":")
                counts = numbers.split()
                if name.strip() != "lo":
                    interfaces[name.strip()] = {"tx": float(counts[8]), "rx": float(counts[0])}
            return interfaces
    return interfaces


def read_space(path: Path) -> Values:
    """Bytes of the file system that holds the container's scratch."""
    found = os.statvfs(path)
    total = found.f_blocks * found.f_frsize
    available = found.f_bavail * found.f_frsize
    return {"available": available, "used": total - found.f_bfree * found.f_frsize, "total": total}


@dataclass(slots=True)
class Usage:
    """Samples one container until it is told that this was the last."""

    log: Log
    scratch: Path
    ram: int
    clock: Callable[[], float]
    """Seconds, monotonic."""
    folders: Folders | None = None
    _last: dict[str, Values] = field(default_factory=dict)
    _last_time: float = 0.0
    _most: dict[str, float] = field(default_factory=dict)
    _warned: int = 0

    async def run(self, find_pid: Callable[[], int | None], *, interval: float, mounts: str) -> None:
        """Sample until cancelled: memory each second, everything each `interval` seconds."""
        hierarchy = find_hierarchy(mounts)
        while self.folders is None:
            pid = find_pid()
            self.folders = find_folders(pid, hierarchy) if pid else None
            await asyncio.sleep(_LOOK)
        while True:
            self.report()
            until = self.clock() + interval
            while self.clock() < until:
                await asyncio.sleep(min(_SAMPLE, max(0.0, until - self.clock())))
                self.watch_memory()

    def watch_memory(self) -> None:
        """Note the memory's maximum, and warn once each time it passes 90, 95 and 99 % of what was asked for."""
        if self.folders is None:
            return
        memory = read_memory(self.folders)
        self._note("rss", memory.get("rss", 0))
        percent = 100 * memory.get("rss", 0) / self.ram if self.ram else 0
        passed = [one for one in _THRESHOLDS if self._warned < one <= percent]
        if passed:
            self._warned = passed[-1]
            self.log.say(f"memory use has passed {passed[-1]} % of the {self.ram} bytes asked for")

    def report(self) -> None:
        """Write one line of each kind."""
        if self.folders is None:
            return
        now = self.clock()
        samples: dict[str, Values] = {"mem": read_memory(self.folders), "cpu": read_cpu(self.folders)}
        samples |= {f"blkio:{name}": values for name, values in read_disks(self.folders).items()}
        samples |= {f"net:{name}": values for name, values in read_network(self.folders).items()}
        samples["statfs"] = read_space(self.scratch)
        for name, values in samples.items():
            if values:
                self.log.stream(USAGE).write(self._line(name, values, now).encode() + b"\n")
        self._note("rss", samples["mem"].get("rss", 0))
        self._note("cpu", sum(samples["cpu"].get(key, 0) for key in ("user", "sys")))
        self._last, self._last_time = samples, now
        self.log.grown.set()

    def finish(self) -> None:
        """A last report while the counters are still there, and the maxima to the supervisor's log."""
        if self.folders is None:
            return
        with contextlib.suppress(OSError):
            self.report()
        share = f" ({100 * self._most.get('rss', 0) / self.ram:.0f} % of what was asked for)" if self.ram else ""
        self.log.say(f"most memory: {self._most.get('rss', 0):.0f} bytes rss{share}")
        self.log.say(f"most memory with page cache: {read_peak(self.folders):.0f} bytes")
        self.log.say(f"cpu time: {self._most.get('cpu', 0):.2f} s")

    def _note(self, name: str, value: float) -> None:
        self._most[name] = max(self._most.get(name, 0), value)

    def _line(self, name: str, values: Values, now: float) -> str:
        text = f"{name} " + " ".join(f"{_show(value)} {key}" for key, value in values.items())
        before = self._last.get(name)
        if before and name.partition(":")[0] in _CUMULATIVE:
            added = " ".join(f"{_show(values[key] - before.get(key, 0))} {key}" for key in values if key != "cpus")
            text += f" -- interval {now - self._last_time:.4f} seconds {added}"
        return text


def _listed(text: str) -> dict[str, str]:
    """Path by controller in /proc/PID/cgroup; version 2 is listed under ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found.update((name, path) for name in names.split(","))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> float:
    text = _read(path).strip()
    return float(text) if text.lstrip("-").isdigit() else 0.0


def _table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _show(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0").rstrip(".")
