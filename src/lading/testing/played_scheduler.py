"""A batch system without one: jobs in tables, and every meanness that real ones have shown.

`PlayedScheduler` is the controller; a `Mouth` of one batch system reads the command lines of its
programs and prints what they print. A job runs `work` with the container and the token of its
script once it is started; without `work` it runs until it is cancelled.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

import msgspec

from lading.core.errors import LadingError
from lading.dispatch.fleets.batch.programs import OutcomeUnknown, ProgramResult
from lading.testing.pulse import Pulse

OWN_USER: Final = "lading"
_TASK = re.compile(r"(\d+)\)\n    uuid=(\S+)\n    given='(.*?)'\n    ;;", re.DOTALL)
Work = Callable[[str, str], Awaitable[None]]


class PlayedEnd(StrEnum):
    """How a job ended."""

    NONE = ""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"


@dataclass(slots=True, eq=False)
class PlayedJob:
    """One job. `is_started`: it runs or has run; `is_ending`: its end takes for ever. `is_stuck`:
    it will never start.
    """

    id: str
    uuid: str
    token: str
    name: str
    arguments: tuple[str, ...]
    level: int = 0
    user: str = OWN_USER
    mark: str = ""
    is_started: bool = False
    is_ending: bool = False
    is_stuck: bool = False
    is_forgotten: bool = False
    restarts: int = 0
    reason: str = ""
    submitted_at: float = 0.0
    ended_at: float = 0.0
    end: PlayedEnd = PlayedEnd.NONE
    task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it is in the queue."""
        return self.end is PlayedEnd.NONE and not self.is_forgotten


@dataclass(slots=True, kw_only=True)
class SchedulerMalice:
    """Chances from 0 to 1, times in seconds."""

    away: float = 0.0
    """A program says that the controller cannot be reached, and nothing was done."""
    mute: float = 0.0
    """A submission gets no answer, though the job is there."""
    crash: float = 0.0
    """A job ends before its work is done."""
    accounting_lag: float = 0.0
    """The accounts know of an end so much later."""
    skew: float = 0.0
    """The clock of the controller is so much ahead."""
    quota: int = 0
    """Most jobs that have not ended; 0: any number."""
    reuse: int = 0
    """Ids start again after so many jobs; 0: never."""


@dataclass(slots=True)
class PlayedScheduler:
    """The controller. `slots`: how many jobs run at a time."""

    work: Work | None = None
    seed: int = 0
    malice: SchedulerMalice = field(default_factory=SchedulerMalice)
    slots: int = 1000
    is_down: bool = False
    refusal: str = ""
    jobs: list[PlayedJob] = field(default_factory=list)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    pulse: Pulse = field(default_factory=Pulse)
    hidden: set[str] = field(default_factory=set)
    """Ids of jobs that looks at the whole queue do not show."""
    _alive: list[PlayedJob] = field(default_factory=list)
    _random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def chance(self, chance: float) -> bool:
        """Whether something with this chance happens now."""
        return self._random.random() < chance

    def now(self) -> float:
        """Seconds by the clock of the controller."""
        return asyncio.get_running_loop().time() + self.malice.skew

    def alive(self) -> list[PlayedJob]:
        """The jobs in the queue."""
        self._alive = [job for job in self._alive if job.is_alive]
        return list(self._alive)

    def shown(self) -> list[PlayedJob]:
        """The jobs that a look at the whole queue shows, after a cycle of the scheduler."""
        self.schedule()
        return [job for job in self.alive() if job.id not in self.hidden]

    def accounted(self, id: str) -> list[PlayedJob]:
        """The ended jobs with this id that the accounts know of, the oldest first."""
        known_since = asyncio.get_running_loop().time() - self.malice.accounting_lag
        return [
            job
            for job in self.jobs
            if job.id == id and job.end is not PlayedEnd.NONE and job.ended_at <= known_since
        ]

    def named(self, id: str) -> PlayedJob | None:
        """The job in the queue with this id."""
        return next((job for job in self.alive() if job.id == id), None)

    def of(self, uuid: str) -> PlayedJob:
        """The last job of a container."""
        return [job for job in self.jobs if job.uuid == uuid][-1]

    def is_over_quota(self) -> bool:
        """Whether no further job is accepted."""
        return 0 < self.malice.quota <= len(self.alive())

    def submit(
        self, script: str, arguments: Sequence[str], *, name: str, mark: str, level: int
    ) -> PlayedJob:
        """Take a job."""
        match = _TASK.search(script)
        assert match is not None, "no container in the script"
        _, uuid, assignment = match.groups()
        number = len(self.jobs) % self.malice.reuse if self.malice.reuse else len(self.jobs)
        job = PlayedJob(
            id=str(number + 1),
            uuid=uuid,
            token=msgspec.json.decode(shlex.split(f"'{assignment}'")[0])["supervisor_token"],
            name=name,
            mark=mark,
            arguments=tuple(arguments),
            level=level,
            submitted_at=self.now(),
        )
        self.scripts.append(script)
        self.add(job)
        return job

    def add(self, job: PlayedJob) -> None:
        """Have a job in the queue, whoever submitted it."""
        self.jobs.append(job)
        self._alive.append(job)

    def schedule(self) -> None:
        """Start what waits, by level, as far as there are slots."""
        alive = self.alive()
        waiting = [job for job in alive if not job.is_started and not job.is_stuck]
        running = sum(job.is_started for job in alive)
        ranked = sorted(waiting, key=lambda job: -job.level)
        for job in ranked[: max(0, self.slots - running)]:
            job.is_started = True
            if self.work is not None:
                job.task = asyncio.ensure_future(self._run(job, self.work))

    def finish(self, job: PlayedJob, end: PlayedEnd = PlayedEnd.DONE) -> None:
        """The job has ended like this."""
        job.end, job.ended_at = end, asyncio.get_running_loop().time()
        if job.task is not None:
            job.task.cancel()

    def cancel(self, ids: Sequence[str]) -> list[str]:
        """Cancel jobs; returns the ids that are not in the queue."""
        missing = []
        for id in ids:
            job = self.named(id)
            if job is None:
                missing.append(id)
            elif not job.is_ending:
                self.finish(job, PlayedEnd.CANCELLED)
        return missing

    def requeue(self, job: PlayedJob) -> None:
        """Its node is lost: it waits again, and its first run may go on."""
        job.is_started, job.restarts = False, job.restarts + 1

    def forget(self, job: PlayedJob) -> None:
        """A controller that comes back from an old state knows nothing of it; what runs goes on."""
        job.is_forgotten = True

    async def close(self) -> None:
        """End all jobs."""
        tasks = [job.task for job in self.jobs if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: PlayedJob, work: Work) -> None:
        end = PlayedEnd.DONE
        try:
            if not self.chance(self.malice.crash) and not job.restarts:
                await work(job.uuid, job.token)
        except (LadingError, asyncio.CancelledError):
            end = PlayedEnd.FAILED
        if job.is_alive and not job.is_ending:
            job.task = None
            self.finish(job, end)


class Mouth:
    """A `ProgramRunner` of one batch system over a PlayedScheduler. A subclass has a method for
    each program, named after it.
    """

    away = "cannot contact the controller: connection refused"
    """The message of its programs when the controller is away."""
    submissions: frozenset[str] = frozenset()
    """Its programs that submit jobs."""
    looks: frozenset[str] = frozenset()
    """Its programs that look at the whole queue."""

    def __init__(self, scheduler: PlayedScheduler) -> None:
        self.scheduler = scheduler

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        """Run a program."""
        del timeout
        await asyncio.sleep(0)
        played = self.scheduler
        played.calls.append(tuple(arguments))
        played.pulse.beat()
        if played.is_down or played.chance(played.malice.away):
            return ProgramResult(1, "", f"{arguments[0]}: {self.away}\n")
        result = self.answer(arguments[0], list(arguments[1:]), stdin.decode())
        is_submission = arguments[0] in self.submissions
        if is_submission and not result.code and played.chance(played.malice.mute):
            raise OutcomeUnknown(f"{arguments[0]}: no answer in 0 s")
        return result

    def answer(self, program: str, arguments: list[str], script: str) -> ProgramResult:
        """The answer of a program."""
        method: Callable[[list[str], str], ProgramResult] = getattr(self, program)
        return method(arguments, script)


def option(arguments: Sequence[str], name: str, default: str = "") -> str:
    """The word after an option."""
    words = list(arguments)
    return words[words.index(name) + 1] if name in words else default


def succeeded(out: str = "") -> ProgramResult:
    """The result of a program that succeeded."""
    return ProgramResult(0, out, "")


def failed(err: str) -> ProgramResult:
    """The result of a program that failed."""
    return ProgramResult(1, "", f"{err}\n")
