"""What a soak measures of a cluster every half minute, and how growth is told from noise."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.system.chaos.load import supervisors
from tests.system.cluster import Cluster, left_cgroups, left_mounts, left_processes

MIB: Final = 1 << 20
HOUR: Final = 3600.0
ROLES: Final = ("parent", "server", "dispatcher", "warm-parent", "supervisor")
LASTING: Final = ROLES[:4]
"""Roles whose processes live until they are killed; a supervisor lives as long as its container."""
_TABLES = (
    "container_requests",
    "containers",
    "collections",
    "logs",
    "api_client_authorizations",
    "allocations",
)


@dataclass(frozen=True)
class Process:
    """One process at one moment: resident memory in bytes, and open files."""

    pid: int
    resident: int
    files: int


@dataclass(frozen=True)
class Sample:
    """A cluster at one moment, `at` seconds after the beginning; `machine` is the busy share of all
    processors.
    """

    at: float
    machine: float
    roles: Mapping[str, tuple[Process, ...]]
    rows: Mapping[str, int]
    temporary: int
    processes: int
    mounts: int
    cgroups: int

    def resident(self, role: str) -> int:
        """Resident memory of a role's largest process, in bytes."""
        return max((one.resident for one in self.roles[role]), default=0)

    def line(self) -> str:
        """The sample as a line of the table."""
        memory = "".join(f"{self.resident(role) / MIB:9.1f}" for role in ROLES)
        files = sum(one.files for role in LASTING for one in self.roles[role])
        rows = f"{self.rows['container_requests']:9d}{sum(self.rows.values()):9d}"
        counts = f"{self.processes:7d}{self.mounts:7d}{self.cgroups:8d}{self.temporary:6d}"
        return f"{self.at:7.0f}{self.machine:6.0%}{memory}{files:7d}{rows}{counts}"


_NAMES: Final = ("parent", "server", "dispatch", "warm", "superv.")
HEADER: Final = (
    f"{'second':>7}{'busy':>6}"
    + "".join(f"{name:>9}" for name in _NAMES)
    + f"{'files':>7}{'requests':>9}{'rows':>9}{'procs':>7}{'mounts':>7}{'cgroups':>8}{'temp':>6}"
)


@dataclass
class Sampler:
    """Takes samples of a cluster whose temporary files lie in `temporary`."""

    cluster: Cluster
    temporary: Path
    cluster_id: str
    began: float
    _ticks: tuple[int, int] = field(default=(0, 0))

    def take(self, now: float) -> Sample:
        """A sample; `now` is on the clock of `began`."""
        data = self.cluster.data
        return Sample(
            at=now - self.began,
            machine=self._machine(),
            roles={role: tuple(_processes(self._pids(role))) for role in ROLES},
            rows=count_rows(data),
            temporary=_entries(self.temporary),
            processes=len(left_processes(data)),
            mounts=len(left_mounts(data)),
            cgroups=len(left_cgroups(self.cluster_id)),
        )

    def _pids(self, role: str) -> Sequence[int]:
        if role == "parent":
            return [self.cluster.process.pid] if self.cluster.process else []
        if role == "supervisor":
            return [
                pid for pids in supervisors([self.cluster.data / "run"]).values() for pid in pids
            ]
        return self.cluster.pids(role)

    def _machine(self) -> float:
        words = [
            int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ]
        total, idle = sum(words), words[3] + words[4]
        spent, free = total - self._ticks[0], idle - self._ticks[1]
        self._ticks = (total, idle)
        return 1 - free / spent if spent else 0.0


def _entries(directory: Path) -> int:
    # Unlike rglob, walk passes over directories that are removed meanwhile.
    return sum(len(names) + len(files) for _, names, files in os.walk(directory))


def count_rows(data: Path, tables: Iterable[str] = _TABLES) -> dict[str, int]:
    """The number of rows of tables of the SQLite database of a data directory."""
    with closing(
        sqlite3.connect(f"file:{data}/db.sqlite?mode=ro", uri=True, timeout=30)
    ) as database:
        return {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in tables
        }


def _processes(pids: Iterable[int]) -> Iterable[Process]:
    page = os.sysconf("SC_PAGE_SIZE")
    for pid in pids:
        with suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            yield Process(pid, pages * page, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


@dataclass(frozen=True)
class Growth:
    """The slope of a quantity within the lives of a role's processes, per hour, over `seconds` of
    their lives.
    """

    per_hour: float
    seconds: float


def growth(samples: Sequence[Sample], role: str, quantity: str, *, settling: float) -> Growth:
    """Least squares over all lives together, each with a level of its own.

    A process that is killed starts anew at another level, so that only what happens within a life
    says whether it grows. The first `settling` seconds of each life are left out: caches fill then.
    """
    lives: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        for one in sample.roles[role]:
            lives.setdefault(one.pid, []).append((sample.at, float(getattr(one, quantity))))
    above, below, seconds = 0.0, 0.0, 0.0
    for points in lives.values():
        kept = [point for point in points if point[0] >= points[0][0] + settling]
        if len(kept) < 3:
            continue
        middle = sum(at for at, _ in kept) / len(kept)
        level = sum(value for _, value in kept) / len(kept)
        above += sum((at - middle) * (value - level) for at, value in kept)
        below += sum((at - middle) ** 2 for at, _ in kept)
        seconds += kept[-1][0] - kept[0][0]
    return Growth(above / below * HOUR if below else 0.0, seconds)
