"""Parsing of the output of `squeue` and `sinfo`. A line that cannot be parsed is left out, never
guessed at.

A job belongs to a dispatcher when its comment says so: `lading TOKEN ID ID ...`, the uuid of the
dispatcher's token and the last parts of the containers' uuids, one for each task of an array. So a
dispatcher that starts again finds its jobs, and leaves those of others alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.ids import Infix, is_uuid
from lading.core.resources import MIB, Resources

SQUEUE_FORMAT = (
    "JobArrayID:|,Name:|,Nice:|,PriorityLong:|,State:|,Reason:|,RestartCnt:|,NodeList:|,Comment:|"
)
SINFO_FORMAT = "%P|%c|%m|%d|%T|%G|%D"
_MARK = "lading"
# "123", "123_4" or "123_[4-9,12%2]": a job, a task, the waiting tasks of an array.
_TASK = re.compile(r"(\d+)(?:_(?:(\d+)|\[([\d,-]+)(?:%\d+)?\]))?")
_FINAL = frozenset(
    {
        "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
        "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "SPECIAL_EXIT",
    }
)  # fmt: skip
# States of jobs that Slurm has not started; all others run or have ended.
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"})
_USABLE = frozenset(
    {
        "idle",
        "mixed",
        "allocated",
        "completing",
        "reserved",
        "planned",
        "powered_down",
        "powering_up",
    }
)
# "gpu:a100:2(S:0-1)": kind and number in a list of generic resources.
_GPU = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")


class JobPhase(StrEnum):
    """Phase of a job, for the dispatcher."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One task of a job: `job` names it in commands, `index` is its place in the comment's list of
    containers.
    """

    job: str
    index: int
    name: str
    nice: int
    priority: int
    state: str
    reason: str
    restarts: int
    node: str
    comment: str

    @property
    def phase(self) -> JobPhase:
        """Phase of the job."""
        if self.state in _FINAL:
            return JobPhase.ENDED
        return JobPhase.WAITING if self.state in _WAITING else JobPhase.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A kind of node that is there at least once: what one container can have on it, and the
    partitions it is in.

    `default`: one of them is where jobs go that name none.
    """

    capacity: Resources
    partitions: frozenset[str]
    default: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many of them there are in each partition, and under "" where jobs go that name none."""

    @property
    def name(self) -> str:
        """Human-readable description of the kind of node."""
        return f"Slurm nodes of {self.capacity} in {', '.join(sorted(self.partitions))}"


def comment(token: str, uuids: list[str]) -> str:
    """The comment of a job for these containers."""
    return " ".join((_MARK, token, *(uuid[12:] for uuid in uuids)))


def owner(row: QueueRow, *, token: str) -> str | None:
    """The container of a row that is a job of the dispatcher with this token; None for any
    other.
    """
    words = row.comment.split()
    if words[:2] != [_MARK, token] or not 0 <= row.index < len(words) - 2:
        return None
    uuid = f"{token[:5]}-{Infix.CONTAINER}-{words[row.index + 2]}"
    return uuid if is_uuid(uuid, Infix.CONTAINER) else None


def read_squeue(text: str) -> list[QueueRow]:
    """The tasks in the output of `squeue -O SQUEUE_FORMAT`; a waiting array is one line there and
    many rows here.
    """
    return [row for line in text.splitlines() for row in _read_line(line)]


def read_sinfo(text: str) -> tuple[NodeShape, ...]:
    """The kinds of node that can be used, in the output of `sinfo -o SINFO_FORMAT`; each once."""
    found: dict[Resources, dict[str, int]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7 or fields[4].rstrip("*~#!%$@^-+").lower() not in _USABLE:
            continue
        numbers = [_number(one) for one in (*fields[1:4], fields[6])]
        if None not in numbers:
            vcpus, ram, disk, count = (number or 0 for number in numbers)
            gpus = sum(int(count) for count in _GPU.findall(fields[5]))
            names = found.setdefault(Resources(vcpus, ram * MIB, disk * MIB, gpus), {})
            names[fields[0]] = names.get(fields[0], 0) + count
    shapes = [_shape(capacity, names) for capacity, names in found.items()]
    return tuple(sorted(shapes, key=lambda one: (one.capacity.vcpus, one.capacity.ram, one.name)))


def _shape(capacity: Resources, names: Mapping[str, int]) -> NodeShape:
    partitions = frozenset(name.rstrip("*") for name in names)
    counts = {name.rstrip("*"): count for name, count in names.items()}
    default = [count for name, count in names.items() if name.endswith("*")]
    if default:
        counts[""] = max(default)
    return NodeShape(capacity=capacity, partitions=partitions, default=bool(default), counts=counts)


def _read_line(line: str) -> Iterator[QueueRow]:
    fields = [field.strip() for field in line.removesuffix("|").split("|", 8)]
    if len(fields) != 9:
        return
    task = _TASK.fullmatch(fields[0])
    numbers = [_number(fields[at]) for at in (2, 3, 6)]
    if task is None or None in numbers:
        return
    nice, priority, restarts = (number or 0 for number in numbers)
    for job, index in _tasks(task):
        yield QueueRow(
            job=job,
            index=index,
            name=fields[1],
            nice=nice,
            priority=priority,
            state=fields[4],
            reason=fields[5],
            restarts=restarts,
            node=fields[7],
            comment=fields[8],
        )


def _tasks(task: re.Match[str]) -> Iterator[tuple[str, int]]:
    base, one, many = task.groups()
    if one is None and many is None:
        yield base, 0
    for part in (many or one or "").split(","):
        if part:
            first, _, last = part.partition("-")
            for index in range(int(first), int(last or first) + 1):
                yield f"{base}_{index}", index


def _number(text: str) -> int | None:
    text = text.rstrip("+")
    return int(text) if text.lstrip("-").isdecimal() else None
