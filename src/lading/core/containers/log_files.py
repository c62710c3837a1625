"""Numbers from the log files of a container: its use of resources, and where it ran.

The lines are those of docs/spec/containers, section Log; Arvados' `crunch-run` writes the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lading.core.quantities import parse_time

# A sample of `crunchstat.txt`: time, subject, and the amounts; a file of Arvados has a prefix.
_LINE: Final = re.compile(r"(\S+Z) (?:crunchstat: )?(mem|cpu|blkio|net|gpu)(?::(\S*))? (.+)")
_NODE: Final = re.compile(r"^\S+ (\S+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePoint:
    """Use of resources at `at`, in seconds since 1970; rates are means since the point before.

    A counter that the log does not have is None.
    """

    at: float
    cpu: float | None = None
    """Processors in use."""
    memory: float | None = None
    """Bytes."""
    disk_read: float | None = None
    """Bytes a second; the following fields too."""
    disk_written: float | None = None
    received: float | None = None
    sent: float | None = None
    gpu: float | None = None
    """GPUs in use, the shares of all together."""
    gpu_memory: float | None = None
    """Bytes of all of its GPUs."""


class UsageHistory:
    """Use of resources over time. There are fewer than `most` points, an even number: before that
    each two become one.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._merged = 1
        self._waiting: list[UsagePoint] = []
        self._points: list[UsagePoint] = []
        self._present: dict[str, float] = {}
        self._gpus: set[str] = set()

    def add(self, line: str) -> None:
        """Take a line of `crunchstat.txt` into account; others are skipped."""
        match = _LINE.match(line)
        if match is None:
            return
        try:
            at = parse_time(match[1])
            values = _values(match[4])
        except ValueError:
            return
        kind = match[2]
        # The first line of each sample tells the memory.
        if kind == "mem":
            self._finish()
        # GPUs are sampled apart: two samples of one may fall between two of the memory.
        if kind == "gpu" and match[3] in self._gpus:
            return
        self._gpus.update({match[3]} if kind == "gpu" else ())
        self._present.setdefault("at", _seconds(at))
        for name, value in _rates(kind, *values):
            self._present[name] = self._present.get(name, 0.0) + value

    @property
    def points(self) -> list[UsagePoint]:
        """The points so far, in order of time."""
        present = _point(self._present) if self._present else None
        rest = [*self._waiting, *([present] if present else [])]
        return [*self._points, *([_mean(rest)] if rest else [])]

    def _finish(self) -> None:
        if not self._present:
            return
        self._waiting.append(_point(self._present))
        self._present, self._gpus = {}, set()
        if len(self._waiting) < self._merged:
            return
        self._points.append(_mean(self._waiting))
        self._waiting = []
        if len(self._points) >= self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [_mean(pair) for pair in pairs]
            self._merged *= 2


def machine_name(content: str) -> str:
    """The name of the machine in the text of `node-info.txt`; "" if it is not told."""
    title, _, body = content.partition("\n")
    # A log may have a timestamp before each line.
    match = _NODE.match(re.sub(r"^\d{4}-\S+Z ", "", body))
    return match[1] if title.endswith("Host Information") and match else ""


def _seconds(at: datetime) -> float:
    return at.timestamp()


def _values(line: str) -> tuple[Mapping[str, float], Mapping[str, float], float]:
    """Totals, growth, and the seconds of the growth. Raises ValueError."""
    totals, _, growth = line.partition(" -- interval ")
    added = _pairs(growth)
    return _pairs(totals), added, added.get("seconds", 0.0)


def _pairs(line: str) -> dict[str, float]:
    words = line.split()
    return {name: float(value) for value, name in zip(words[::2], words[1::2], strict=True)}


def _rates(
    kind: str, totals: Mapping[str, float], added: Mapping[str, float], seconds: float
) -> Iterable[tuple[str, float]]:
    if kind == "mem":
        yield "memory", totals.get("rss", 0.0)
    elif kind == "gpu":
        if "percent" in totals:
            yield "gpu", totals["percent"] / 100
        yield "gpu_memory", totals.get("used", 0.0)
    elif seconds > 0:
        if kind == "cpu":
            yield "cpu", (added.get("user", 0.0) + added.get("sys", 0.0)) / seconds
        elif kind == "blkio":
            yield "disk_read", added.get("read", 0.0) / seconds
            yield "disk_written", added.get("write", 0.0) / seconds
        else:
            yield "received", added.get("rx", 0.0) / seconds
            yield "sent", added.get("tx", 0.0) / seconds


def _point(values: Mapping[str, float]) -> UsagePoint:
    return UsagePoint(
        at=values["at"],
        cpu=values.get("cpu"),
        memory=values.get("memory"),
        disk_read=values.get("disk_read"),
        disk_written=values.get("disk_written"),
        received=values.get("received"),
        sent=values.get("sent"),
        gpu=values.get("gpu"),
        gpu_memory=values.get("gpu_memory"),
    )


def _mean(points: Iterable[UsagePoint]) -> UsagePoint:
    """Points as one, at the time of the last: means of rates, and the most memory."""
    some = list(points)

    def mean(values: list[float | None]) -> float | None:
        numbers = [value for value in values if value is not None]
        return sum(numbers) / len(numbers) if numbers else None

    memory = [point.memory for point in some if point.memory is not None]
    gpu_memory = [point.gpu_memory for point in some if point.gpu_memory is not None]
    return UsagePoint(
        at=some[-1].at,
        cpu=mean([point.cpu for point in some]),
        memory=max(memory, default=None),
        disk_read=mean([point.disk_read for point in some]),
        disk_written=mean([point.disk_written for point in some]),
        received=mean([point.received for point in some]),
        sent=mean([point.sent for point in some]),
        gpu=mean([point.gpu for point in some]),
        gpu_memory=max(gpu_memory, default=None),
    )
