"""Calls of Slurm's programs: limited and parsed.

- At most three run at a time; `squeue` and `sinfo` are not counted (`batch.programs`).
- A line of `squeue` or `sinfo` that cannot be parsed is left out, never guessed at. The mark of a
  job is its comment.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from lading.core.errors import Failure, Unavailable
from lading.core.resources import MIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleets.batch.batch_system import JobPhase, NodeShape, QueueRow
from lading.dispatch.fleets.batch.programs import (
    FailureSigns,
    OutcomeUnknown,
    ProgramRunner,
    Programs,
    last_line,
)
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus, total_gpus

_SIGNS = FailureSigns(
    away=(
        "unable to contact slurm controller",
        "connect failure",
        "connection refused",
        "socket timed out",
        "timed out",
        "temporarily unable",
        "slurm backup controller",
        "in standby mode",
        "zero bytes were transmitted",
        "transport endpoint",
        "communication shutdown",
        "resource temporarily unavailable",
        "protocol authentication error",
        "munge",
        "job/step already completing",
        "unexpected message received",
        "violates accounting",
        "unable to allocate resources",
    ),
    unsure=(
        "socket timed out",
        "zero bytes were transmitted",
        "transport endpoint",
        "communication shutdown",
        "unexpected message received",
    ),
    gone=("invalid job id", "already completing or completed", "job has already finished"),
)
# Errors of `scontrol` that are about no single job.
_NO_CONTROLLER = _SIGNS.away[:4]
SQUEUE_FORMAT = (
    "JobArrayID:|,Name:|,Nice:|,PriorityLong:|,State:|,Reason:|,RestartCnt:|,NodeList:|,Comment:|"
)
SINFO_FORMAT = "%P|%c|%m|%d|%T|%G|%D"
# "123", "123_4" or "123_[4-9,12%2]": a job, a task, the waiting tasks of an array.
_TASK = re.compile(r"(\d+)(?:_(?:(\d+)|\[([\d,-]+)(?:%\d+)?\]))?")
# In the output of `scontrol show config`: "SlurmUser = slurm(64030)".
_SLURM_USER = re.compile(r"^SlurmUser\s*=\s*([^\s(]+)", re.MULTILINE)
_FINAL = frozenset(
    {
        "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
        "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "SPECIAL_EXIT",
    }
)  # fmt: skip
_FAILURES: Mapping[str, Failure] = MappingProxyType(
    {
        "NODE_FAIL": Failure.NODE,
        "BOOT_FAIL": Failure.NODE,
        "PREEMPTED": Failure.PREEMPTED,
        "OUT_OF_MEMORY": Failure.OOM,
        "TIMEOUT": Failure.TIMEOUT,
        "DEADLINE": Failure.TIMEOUT,
    }
)
_ENDS: Mapping[str, str] = MappingProxyType(
    {
        "NODE_FAIL": "its node failed",
        "BOOT_FAIL": "its node did not boot",
        "PREEMPTED": "it was preempted",
        "OUT_OF_MEMORY": "Slurm ended it for using too much memory",
        "TIMEOUT": "it ran longer than Slurm let it",
        "DEADLINE": "its deadline passed",
        "CANCELLED": "it was cancelled in Slurm",
        "FAILED": "its script failed",
        "COMPLETED": "its script came to its end",
    }
)
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


class Slurm:
    """The commands of Slurm that a dispatcher uses."""

    def __init__(self, run: ProgramRunner, *, timeout: float, users: Sequence[str] = ()) -> None:
        """`users`: names or ids of those whose jobs may be this dispatcher's; none: everybody."""
        self._programs = Programs(run, timeout=timeout, signs=_SIGNS)
        self._of = (f"--user={','.join(users)}",) if users else ()

    async def squeue(self) -> str:
        """The jobs that have not ended. Raises Unavailable."""
        return await self._programs.ask(
            "squeue", "--all", "--noheader", *self._of, f"--Format={SQUEUE_FORMAT}"
        )

    async def ended(self, jobs: Sequence[str]) -> str:
        """Rows of these jobs, ended or not; none for jobs that Slurm has forgotten. Raises
        Unavailable.
        """
        # Tasks of arrays are asked for by their array: a list of thousands of tasks is too long for
        # a command line.
        bases = sorted({job.partition("_")[0] for job in jobs})
        arguments = ("squeue", "--all", "--noheader", "--states=all", *self._of)
        result = await self._programs.try_to_ask(
            *arguments, f"--jobs={','.join(bases)}", f"--Format={SQUEUE_FORMAT}"
        )
        # A single one that it has forgotten is an error of its own.
        if self._programs.is_gone(result):
            return ""
        if result.code:
            raise Unavailable(f"squeue: {last_line(result)}")
        return result.out

    async def sinfo(self) -> str:
        """The kinds of nodes. Raises Unavailable."""
        return await self._programs.ask("sinfo", "--noheader", f"--format={SINFO_FORMAT}")

    async def nodes(self, arguments: Sequence[str]) -> str:
        """The nodes, in a form that `arguments` say. Raises Unavailable."""
        return await self._programs.ask("sinfo", "--noheader", *arguments)

    async def sbatch(self, arguments: Sequence[str], script: bytes) -> str:
        """Submit a job; return its id. Raises Refused, Unavailable, OutcomeUnknown when a job may
        exist.
        """
        answer = await self._programs.submit(("sbatch", "--parsable", *arguments), script)
        # `--parsable` prints "JOB;CLUSTER" where clusters have names (sbatch(1)).
        job = answer.strip().partition(";")[0]
        if not job.isdecimal():
            raise OutcomeUnknown(f"sbatch: no job id in its answer {answer.strip()[:80]!r}")
        return job

    async def scancel(self, jobs: Sequence[str], *options: str) -> None:
        """Signal or cancel jobs; jobs that have ended are ignored. Raises Unavailable."""
        await self._programs.change("scancel", *options, *jobs)

    async def renice(self, changes: Mapping[str, int]) -> None:
        """Give jobs new nice values with one command; jobs that have ended are ignored. Raises
        Unavailable.
        """
        lines = "".join(f"update JobId={job} Nice={nice}\n" for job, nice in changes.items())
        result = await self._programs.order(("scontrol",), lines.encode())
        # Errors about single jobs are ignored: `scontrol` goes on with the next line, and jobs end
        # at any time.
        if any(sign in result.err.lower() for sign in _NO_CONTROLLER):
            self._programs.check("scontrol", result)

    async def set_node(self, name: str, changes: Mapping[str, str]) -> None:
        """Change a node. Raises JobRefused, also where the caller may not, Unavailable."""
        settings = (f"{key}={value}" for key, value in changes.items())
        result = await self._programs.order(("scontrol", "update", f"NodeName={name}", *settings))
        self._programs.check("scontrol", result)

    async def may_set_nodes(self, user: str) -> bool:
        """Whether a user of this machine may change nodes: root, the user of the controller, and
        administrators by the accounts of Slurm (slurm.conf(5), sacctmgr(1)). Raises Unavailable.
        """
        if user == "root":
            return True
        settings = await self._programs.ask("scontrol", "show", "config")
        controller = _SLURM_USER.search(settings)
        if controller is not None and controller[1] == user:
            return True
        arguments = ("--noheader", "--parsable2", "show", "user", user, "format=AdminLevel")
        # Without accounts of Slurm it fails, and there are no administrators.
        result = await self._programs.try_to_ask("sacctmgr", *arguments)
        return result.code == 0 and result.out.strip() == "Administrator"


def read_squeue(output: str) -> list[QueueRow]:
    """The tasks in the output of `squeue -O SQUEUE_FORMAT`; a waiting array is one line there and
    many rows here.
    """
    return [row for line in output.splitlines() for row in _read_line(line)]


def read_sinfo(output: str, gpu_types: SlurmGpus = NO_TYPES) -> tuple[NodeShape, ...]:
    """The kinds of node that can be used, in the output of `sinfo -o SINFO_FORMAT`; each once."""
    counts_by_kind: dict[tuple[Resources, tuple[str, ...]], dict[str, int]] = {}
    gpus: dict[tuple[Resources, tuple[str, ...]], dict[str, Gpu]] = {}
    for line in output.splitlines():
        fields = [field.strip() for field in line.split("|")]
        # The signs behind a state say for example that a node is not responding or is powered down
        # (sinfo(1)).
        if len(fields) != 7 or fields[4].rstrip("*~#!%$@^-+").lower() not in _USABLE:
            continue
        numbers = [_number(field) for field in (*fields[1:4], fields[6])]
        if None not in numbers:
            vcpus, ram, disk, count = (number or 0 for number in numbers)
            kinds = gpu_types.kinds(fields[5])
            capacity = Resources(vcpus, ram * MIB, disk * MIB, total_gpus(kinds))
            key = capacity, tuple(f"{name}:{gpu.count}" for name, gpu in sorted(kinds.items()))
            gpus[key] = kinds
            names = counts_by_kind.setdefault(key, {})
            names[fields[0]] = names.get(fields[0], 0) + count
    shapes = [_shape(key[0], names, gpus[key]) for key, names in counts_by_kind.items()]
    return tuple(
        sorted(shapes, key=lambda shape: (shape.capacity.vcpus, shape.capacity.ram, shape.name))
    )


def _shape(capacity: Resources, names: Mapping[str, int], gpus: Mapping[str, Gpu]) -> NodeShape:
    partitions = frozenset(name.rstrip("*") for name in names)
    counts = {name.rstrip("*"): count for name, count in names.items()}
    default = [count for name, count in names.items() if name.endswith("*")]
    if default:
        # A job goes to one partition, so their numbers do not add up.
        counts[""] = max(default)
    return NodeShape(
        system="Slurm",
        capacity=capacity,
        partitions=partitions,
        default=bool(default),
        counts=counts,
        gpus=gpus,
    )


def _read_line(line: str) -> Iterator[QueueRow]:
    # The comment comes last and may hold "|" itself.
    fields = [field.strip() for field in line.removesuffix("|").split("|", 8)]
    if len(fields) != 9:
        return
    task = _TASK.fullmatch(fields[0])
    numbers = [_number(fields[at]) for at in (2, 3, 6)]
    if task is None or None in numbers:
        return
    nice, priority, restarts = (number or 0 for number in numbers)
    for job, index in _tasks(task):
        state = fields[4]
        yield QueueRow(
            job=job,
            index=index,
            array=task[1],
            mark=fields[8],
            phase=_phase(state),
            state=state,
            reason=fields[5],
            node=fields[7],
            nice=nice,
            priority=priority,
            restarts=restarts,
            # Slurm gives priority 0 to jobs that are held.
            is_movable=priority != 0,
            is_ending=state == "COMPLETING",
            end=_ENDS.get(state, f"it ended as {state}"),
            failure=_FAILURES.get(state, Failure.INFRASTRUCTURE),
        )


def _phase(state: str) -> JobPhase:
    if state in _FINAL:
        return JobPhase.ENDED
    return JobPhase.WAITING if state in _WAITING else JobPhase.RUNNING


def _tasks(task: re.Match[str]) -> Iterator[tuple[str, int]]:
    base, single, spans = task.groups()
    if single is None and spans is None:
        yield base, 0
    for span in (spans or single or "").split(","):
        if span:
            first, _, last = span.partition("-")
            for index in range(int(first), int(last or first) + 1):
                yield f"{base}_{index}", index


def _number(digits: str) -> int | None:
    # Slurm writes "64+" for nodes of one line that have different numbers: the smallest counts.
    digits = digits.rstrip("+")
    return int(digits) if digits.lstrip("-").isdecimal() else None
