"""Samples of the resource use of a container, for its log.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lading.supervisor.limits.cgroup import (
    Hierarchy,
    find_hierarchy,
)
from lading.supervisor.limits.counters import (
    CgroupCounters,
    Values,
    descendants,
    find_folders,
    own_folders,
    read_cpu,
    read_disks,
    read_interfaces,
    read_memory,
    read_network,
    read_peak,
    read_processes,
    read_rss,
    read_space,
)
from lading.supervisor.logs import HOST, USAGE, Log

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
        line = f"{name} " + " ".join(f"{_show(value)} {key}" for key, value in values.items())
        before = self.last.get(name)
        if before and name.partition(":")[0] in _CUMULATIVE:
            added = " ".join(
                f"{_show(values[key] - before.get(key, 0))} {key}"
                for key in values
                if key != "cpus"
            )
            line += f" -- interval {now - self._last_time:.4f} seconds {added}"
        return line + "\n"


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
    _has_finished: bool = False
    # Of processes without a control group, at the last look.
    _last_cpu: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lines, self._host = Lines(self.log, USAGE), Lines(self.log, HOST)

    def look_at(self, pid: int | None, *, mounts: str) -> None:
        """Find the control group of a process that was started, if the process has its own; on a
        machine without groups the process is sampled.
        """
        hierarchy = find_hierarchy(mounts)
        if pid and hierarchy.roots:
            self.folders = find_folders(pid, hierarchy)
        elif pid:
            self._pid = pid

    async def run(
        self, find_pid: Callable[[], int | None], *, interval: float, mounts: str
    ) -> None:
        """Sample until cancelled or finished: memory each second, everything each `interval`
        seconds.
        """
        hierarchy = find_hierarchy(mounts)
        await self._find(find_pid, hierarchy)
        host: CgroupCounters | None = None
        # For a shorter container the totals at its end suffice.
        await asyncio.sleep(_FIRST)
        while self._goes_on():
            self.report()
            until = self.clock() + interval
            while self.clock() < until:
                await asyncio.sleep(min(self.sample, max(0.0, until - self.clock())))
                if not self._goes_on():
                    return
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
        """Write the container's use of memory, processors, network and disk, a line for each."""
        if self.folders is None and not self._pid:
            return
        samples = self._sample()
        self._note(samples["mem"])
        if samples["statfs"]["used"] >= self._fullest.get("used", 0):
            self._fullest = samples["statfs"]
        self.lines.write(samples, self.clock())

    def report_host(self, folders: CgroupCounters) -> None:
        """Write the use by the processes that serve the container, in the same way."""
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
        supervisor's log. Later calls do nothing.
        """
        if self._has_finished:
            return
        self._has_finished = True
        if self.folders is None and not self._pid:
            return
        # The control group may be gone. Of processes that have ended nothing is known any more.
        with contextlib.suppress(OSError):
            if self.folders is not None or read_rss(self._pid):
                self.report()
        cpu = self.lines.last.get("cpu") or self._last_cpu
        if self._last_cpu and sum(cpu.values()) < sum(self._last_cpu.values()):
            cpu = self._last_cpu
        peak = read_peak(self.folders) if self.folders is not None else 0.0
        memory = peak or self._most.get("rss", 0.0)
        self.used = {
            **({"memory": memory} if memory else {}),
            **({"cpu": cpu["user"] + cpu["sys"]} if cpu else {}),
        }
        self.log.say("\n".join(self.summary()))

    def _goes_on(self) -> bool:
        return not self._has_finished

    async def _find(self, find_pid: Callable[[], int | None], hierarchy: Hierarchy) -> None:
        """Wait until the container's control group exists in each hierarchy, or its process when it
        has no group of its own.
        """
        looks = 0
        while not self._is_in_all(hierarchy):
            pid = find_pid()
            if pid:
                # A process that has ended is in none.
                self.folders = find_folders(pid, hierarchy) or self.folders
                # Its program joins one group after the other, a moment after its start.
                looks += 1
                if looks > _LOOKS or not hierarchy.roots:
                    self._pid = 0 if self.folders is not None else pid
                    return
            await asyncio.sleep(self.look)

    def _is_in_all(self, hierarchy: Hierarchy) -> bool:
        return self.folders is not None and self.folders.paths.keys() >= hierarchy.roots.keys()

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
        if not self._pid:
            return {}
        memory, cpu = read_processes(descendants(self._pid))
        if cpu["user"] + cpu["sys"]:
            self._last_cpu = cpu
        return memory

    def _note(self, memory: Values) -> None:
        for name, value in memory.items():
            self._most[name] = max(self._most.get(name, 0), value)
        rss = memory.get("rss", 0)
        percent = 100 * rss / self.ram if self.ram else 0
        passed = [threshold for threshold in _THRESHOLDS if self._warned < threshold <= percent]
        if passed:
            # Warned about once each.
            self._warned = passed[-1]
            self.log.say(
                f"Container using over {passed[-1]}% of memory (rss {rss:.0f} of {self.ram} bytes)"
            )

    def summary(self) -> list[str]:
        """Totals and maxima of the last samples, one sentence each."""
        last, sentences = self.lines.last, []
        if cpu := last.get("cpu"):
            sentences.append(
                f"Total CPU usage was {cpu['user']:f} user and {cpu['sys']:f} sys"
                f" on {cpu['cpus']:.2f} CPUs"
            )
        sentences += [
            f"Total disk I/O on {device} was {values['write']:.0f} bytes written and "
            f"{values['read']:.0f} bytes read"
            for device, values in _of_kind(last, "blkio")
        ]
        if total := self._fullest.get("total"):
            used = self._fullest["used"]
            sentences.append(
                f"Maximum disk usage was {100 * used / total:.0f}%, {used:.0f}/{total:.0f} bytes"
            )
        for name, value in self._most.items():
            amount = f"{value:.0f}"
            if name == "rss" and self.ram:
                amount = f"{100 * value / self.ram:.0f}%, {amount}/{self.ram}"
            sentences.append(f"Maximum container memory {name} usage was {amount} bytes")
        if self.folders is not None and (peak := read_peak(self.folders)):
            sentences.append(
                f"Maximum container memory usage was {peak:.0f} bytes, page cache included"
            )
        sentences += [
            f"Total network I/O on {interface} was {values['tx']:.0f} bytes written and "
            f"{values['rx']:.0f} bytes read"
            for interface, values in _of_kind(last, "net")
        ]
        sentences += [
            f"Maximum {name} memory rss usage was {size:.0f} bytes"
            for name, size in self._most_of.items()
        ]
        return sentences


def _show(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0").rstrip(".")


def _of_kind(samples: Mapping[str, Values], kind: str) -> Iterator[tuple[str, Values]]:
    """Samples with the name `kind:device`, by device."""
    for name, values in samples.items():
        found, _, device = name.partition(":")
        if found == kind:
            yield device, values
