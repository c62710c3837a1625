"""Calls of Slurm's programs: limited and parsed.

- Each call has a time limit, and at most three run at a time. `squeue` and `sinfo` are not counted
  among the three, so that queries do not wait behind submissions. Standard error shows whether the
  controller is unreachable or overloaded (Unavailable: try again later) or has refused the request
  for good (JobRefused).
- A line of `squeue` or `sinfo` that cannot be parsed is left out, never guessed at. A job belongs
  to a dispatcher by its comment: `lading TOKEN ID ID ...`, the uuid of the dispatcher's token and
  the last parts of the containers' uuids, one for each task of an array. So a dispatcher that
  starts again finds its jobs, and leaves those of others alone. Comments can be read and copied by
  every user of the cluster, so only jobs of the dispatcher's own user are asked for.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.core.ids import Infix, is_uuid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus, total_gpus

# Commands at a time, so that a dispatcher does not crowd out the users of slurmctld.
_AT_A_TIME = 3
_AWAY = (
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
)
# The request was sent, and its result was lost on the way back.
_UNSURE = (
    "socket timed out",
    "zero bytes were transmitted",
    "transport endpoint",
    "communication shutdown",
    "unexpected message received",
)
_GONE = ("invalid job id", "already completing or completed", "job has already finished")
_INHERITED = ("PATH", "HOME", "LANG", "SLURM_CONF", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH")
SQUEUE_FORMAT = (
    "JobArrayID:|,Name:|,Nice:|,PriorityLong:|,State:|,Reason:|,RestartCnt:|,NodeList:|,Comment:|"
)
SINFO_FORMAT = "%P|%c|%m|%d|%T|%G|%D"
_MARK = "lading"
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


class JobRefused(ExecutionError):
    """Slurm refuses this job for good."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure.NODE)


class OutcomeUnknown(Unavailable):
    """The program was killed before it reported its outcome."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and output of a program."""

    code: int
    out: str
    err: str


class ProgramRunner(Protocol):
    """Runs programs."""

    async def __call__(
        self, arguments: Sequence[str], *, text: bytes, timeout: float
    ) -> ProgramResult:
        """Run to the end. Raises OutcomeUnknown after `timeout` seconds, Unavailable when there is
        no such program.
        """


class Slurm:
    """The commands of Slurm that a dispatcher uses."""

    def __init__(self, run: ProgramRunner, *, timeout: float, users: Sequence[str] = ()) -> None:
        """`users`: names or ids of those whose jobs may be this dispatcher's; none: everybody."""
        self._run = run
        self._of = (f"--user={','.join(users)}",) if users else ()
        self._timeout = timeout
        # slurmctld slows down for everybody under many calls at once.
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    async def squeue(self) -> str:
        """The jobs that have not ended. Raises Unavailable."""
        return await self._ask(
            ("squeue", "--all", "--noheader", *self._of, f"--Format={SQUEUE_FORMAT}")
        )

    async def ended(self, jobs: Sequence[str]) -> str:
        """Rows of these jobs, ended or not; none for jobs that Slurm has forgotten. Raises
        Unavailable.
        """
        # Tasks of arrays are asked for by their array: a list of thousands of tasks is too long for
        # a command line.
        bases = sorted({job.partition("_")[0] for job in jobs})
        names = f"--jobs={','.join(bases)}"
        arguments = (
            "squeue",
            "--all",
            "--noheader",
            "--states=all",
            *self._of,
            names,
            f"--Format={SQUEUE_FORMAT}",
        )
        done = await self._run(arguments, text=b"", timeout=self._timeout)
        # A single one that it has forgotten is an error of its own.
        return "" if any(sign in done.err.lower() for sign in _GONE) else _output(done, "squeue")

    async def sinfo(self) -> str:
        """The kinds of nodes. Raises Unavailable."""
        return await self._ask(("sinfo", "--noheader", f"--format={SINFO_FORMAT}"))

    async def nodes(self, arguments: Sequence[str]) -> str:
        """The nodes, in a form that `arguments` say. Raises Unavailable."""
        return await self._ask(("sinfo", "--noheader", *arguments))

    async def sbatch(self, arguments: Sequence[str], script: bytes) -> str:
        """Submit a job; return its id. Raises Refused, Unavailable, OutcomeUnknown when a job may
        exist.
        """
        async with self._turn:
            done = await self._run(
                ("sbatch", "--parsable", *arguments), text=script, timeout=self._timeout
            )
        if done.code and (
            # Killed without a word, or the answer was lost: the job may exist, and only a look at
            # the queue tells.
            not done.err.strip() or any(sign in done.err.lower() for sign in _UNSURE)
        ):
            raise OutcomeUnknown(f"sbatch: {_last_line(done.err)}")
        _check(done, "sbatch")
        # `--parsable` prints "JOB;CLUSTER" where clusters have names (sbatch(1)).
        job = done.out.strip().partition(";")[0]
        if not job.isdecimal():
            raise OutcomeUnknown(f"sbatch: no job id in its answer {done.out.strip()[:80]!r}")
        return job

    async def scancel(self, jobs: Sequence[str], *options: str) -> None:
        """Signal or cancel jobs; jobs that have ended are ignored. Raises Unavailable."""
        async with self._turn:
            done = await self._run(("scancel", *options, *jobs), text=b"", timeout=self._timeout)
        if not any(sign in done.err.lower() for sign in _GONE):
            _check(done, "scancel")

    async def renice(self, changes: Mapping[str, int]) -> None:
        """Give jobs new nice values with one command; jobs that have ended are ignored. Raises
        Unavailable.
        """
        text = "".join(f"update JobId={job} Nice={nice}\n" for job, nice in changes.items())
        async with self._turn:
            done = await self._run(("scontrol",), text=text.encode(), timeout=self._timeout)
        # Errors about single jobs are ignored: `scontrol` goes on with the next line, and jobs end
        # at any time.
        if any(sign in done.err.lower() for sign in _AWAY[:4]):
            _check(done, "scontrol")

    async def set_node(self, name: str, changes: Mapping[str, str]) -> None:
        """Change a node. Raises JobRefused, also where the caller may not, Unavailable."""
        given = (f"{key}={value}" for key, value in changes.items())
        async with self._turn:
            done = await self._run(
                ("scontrol", "update", f"NodeName={name}", *given), text=b"", timeout=self._timeout
            )
        _check(done, "scontrol")

    async def may_set_nodes(self, user: str) -> bool:
        """Whether a user of this machine may change nodes: root, the user of the controller, and
        administrators by the accounts of Slurm (slurm.conf(5), sacctmgr(1)). Raises Unavailable.
        """
        if user == "root":
            return True
        settings = await self._ask(("scontrol", "show", "config"))
        found = _SLURM_USER.search(settings)
        if found is not None and found[1] == user:
            return True
        arguments = ("--noheader", "--parsable2", "show", "user", user, "format=AdminLevel")
        # Without accounts of Slurm it fails, and there are no administrators.
        done = await self._run(("sacctmgr", *arguments), text=b"", timeout=self._timeout)
        return done.code == 0 and done.out.strip() == "Administrator"

    async def _ask(self, arguments: Sequence[str]) -> str:
        return _output(await self._run(arguments, text=b"", timeout=self._timeout), arguments[0])


async def run_program(arguments: Sequence[str], *, text: bytes, timeout: float) -> ProgramResult:
    """Run a program with a small environment of its own: ours may hold secrets. Raises JobRefused
    for arguments that the kernel does not pass.
    """
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # 0: task numbers of arrays are never cut with "...".
            env=environment | {"SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "standard"},
            cwd="/",
        )
    except ValueError as error:
        raise JobRefused(f"{arguments[0]}: an argument cannot be passed: {error}") from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise JobRefused(f"{arguments[0]}: its arguments are too long") from error
        raise Unavailable(
            f"{arguments[0]}: cannot be run ({error.strerror});"
            " install Slurm's programs on this machine"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(text)
    except TimeoutError:
        raise OutcomeUnknown(f"{arguments[0]}: no answer from Slurm in {timeout:g} s") from None
    finally:
        if process.returncode is None:
            # The process has ended at the same moment.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return ProgramResult(
        process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
    )


def _output(done: ProgramResult, program: str) -> str:
    if done.code:
        raise Unavailable(f"{program}: {_last_line(done.err)}")
    return done.out


def _check(done: ProgramResult, program: str) -> None:
    if done.code:
        said = done.err.lower()
        if any(sign in said for sign in _AWAY):
            raise Unavailable(f"{program}: {_last_line(done.err)}")
        raise JobRefused(f"{program}: {_last_line(done.err)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("sbatch: error: ") if lines else "no message"


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
    """A kind of node, with at least one node: the resources that a container can have on it, and
    the partitions it is in.

    `default`: one of them is where jobs go that name none.
    """

    capacity: Resources
    partitions: frozenset[str]
    default: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of these nodes in each partition; "" stands for the default partition, for jobs that
    name none.
    """
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    """The GPUs of a node by type, "" for those without one."""

    @property
    def name(self) -> str:
        """Human-readable description of the kind of node."""
        types = ", ".join(sorted(filter(None, self.gpus)))
        described = f"{self.capacity} ({types})" if types else f"{self.capacity}"
        return f"Slurm nodes of {described} in {', '.join(sorted(self.partitions))}"


def comment(token: str, uuids: list[str]) -> str:
    """The comment of a job for these containers."""
    # Without the first part, which follows from the token: comments have a limited length, arrays
    # many tasks.
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


def read_sinfo(text: str, gpu_types: SlurmGpus = NO_TYPES) -> tuple[NodeShape, ...]:
    """The kinds of node that can be used, in the output of `sinfo -o SINFO_FORMAT`; each once."""
    found: dict[tuple[Resources, tuple[str, ...]], dict[str, int]] = {}
    gpus: dict[tuple[Resources, tuple[str, ...]], dict[str, Gpu]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        # The signs behind a state say for example that a node is not responding or is powered down
        # (sinfo(1)).
        if len(fields) != 7 or fields[4].rstrip("*~#!%$@^-+").lower() not in _USABLE:
            continue
        numbers = [_number(one) for one in (*fields[1:4], fields[6])]
        if None not in numbers:
            vcpus, ram, disk, count = (number or 0 for number in numbers)
            kinds = gpu_types.kinds(fields[5])
            capacity = Resources(vcpus, ram * MIB, disk * MIB, total_gpus(kinds))
            key = capacity, tuple(f"{name}:{gpu.count}" for name, gpu in sorted(kinds.items()))
            gpus[key] = kinds
            names = found.setdefault(key, {})
            names[fields[0]] = names.get(fields[0], 0) + count
    shapes = [_shape(key[0], names, gpus[key]) for key, names in found.items()]
    return tuple(sorted(shapes, key=lambda one: (one.capacity.vcpus, one.capacity.ram, one.name)))


def _shape(capacity: Resources, names: Mapping[str, int], gpus: Mapping[str, Gpu]) -> NodeShape:
    partitions = frozenset(name.rstrip("*") for name in names)
    counts = {name.rstrip("*"): count for name, count in names.items()}
    default = [count for name, count in names.items() if name.endswith("*")]
    if default:
        # A job goes to one partition, so their numbers do not add up.
        counts[""] = max(default)
    return NodeShape(
        capacity=capacity, partitions=partitions, default=bool(default), counts=counts, gpus=gpus
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
    # Slurm writes "64+" for nodes of one line that have different numbers: the smallest counts.
    text = text.rstrip("+")
    return int(text) if text.lstrip("-").isdecimal() else None
