"""Slurm without Slurm: answers `sbatch`, `squeue`, `sinfo`, `scancel` and `scontrol` from tables in
memory.

Knows what `dispatch.fleets.slurm` uses, prints what the real programs print, and can be
mean: away, deaf, slow to show a job, or taking a job and never saying so. A job runs `work` with
the container and token of its script once it is started; without `work` it runs until it is
cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from lading.core.errors import LadingError
from lading.dispatch.fleets.batch.programs import OutcomeUnknown, ProgramResult
from lading.testing.pulse import Pulse

NODES = "main*|16|20000|100000|idle|(null)|2\n"
_TASK = re.compile(r"(\d+)\)\n    uuid=(\S+)\n    given='(.*?)'\n    ;;", re.DOTALL)
_ENDED = (
    "COMPLETED", "CANCELLED", "FAILED", "NODE_FAIL", "PREEMPTED", "TIMEOUT", "FORGOTTEN",
)  # fmt: skip


@dataclass(slots=True)
class FakeJob:
    """One task of one job."""

    id: str
    uuid: str
    token: str
    name: str
    comment: str
    nice: int
    priority: int
    arguments: tuple[str, ...]
    state: str = "PENDING"
    reason: str = "None"
    restarts: int = 0
    node: str = ""
    task: asyncio.Task[None] | None = None
    user: str = str(os.geteuid())


@dataclass(slots=True, kw_only=True)
class Malice:
    """Chances from 0 to 1."""

    away: float = 0.0
    """A program says that the controller cannot be reached, and nothing was done."""
    mute: float = 0.0
    """`sbatch` gets no answer, though the job is there."""
    crash: float = 0.0
    """A job ends before its work is done."""


Work = Callable[[str, str], Awaitable[None]]


@dataclass(slots=True)
class FakeSlurm:
    """A `ProgramRunner`. `slots`: how many jobs run at a time. `nodes` is what `sinfo`
    prints.

    It takes as long for 10,000 jobs that have ended as for none.
    """

    work: Work | None = None
    seed: int = 0
    malice: Malice = field(default_factory=Malice)
    slots: int = 1000
    nodes: str = NODES
    refusal: str = ""
    down: bool = False
    failing: dict[str, str] = field(default_factory=dict)
    """What programs say that fail, and do nothing, by the program and perhaps the beginning of an
    option of it.
    """
    hidden: set[str] = field(default_factory=set)
    """Jobs that a look at the whole queue does not show."""
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    pulse: Pulse = field(default_factory=Pulse)
    live: dict[str, FakeJob] = field(default_factory=dict)
    """The jobs that have not ended, of all users."""
    _made: int = 0
    _bases: dict[str, list[FakeJob]] = field(default_factory=dict)
    _random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        """Run a program."""
        await asyncio.sleep(0)
        self.calls.append(tuple(arguments))
        self.pulse.beat()
        if self.down or self._chance(self.malice.away):
            return ProgramResult(
                1,
                "",
                "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
            )
        for program, said in self.failing.items():
            name, _, option = program.partition(" ")
            if name == arguments[0] and any(one.startswith(option) for one in arguments):
                return ProgramResult(1, "", said)
        act = {
            "squeue": self._squeue,
            "sinfo": lambda _a, _t: ProgramResult(0, self.nodes, ""),
            "sbatch": self._sbatch,
            "scancel": self._scancel,
            "scontrol": self._scontrol,
            "sacctmgr": self._sacctmgr,
        }[arguments[0]]
        done = act(arguments[1:], stdin.decode())
        if arguments[0] == "sbatch" and done.code == 0 and self._chance(self.malice.mute):
            raise OutcomeUnknown("sbatch: no answer from Slurm in 0 s")
        return done

    def _sacctmgr(self, _arguments: Sequence[str], _text: str) -> ProgramResult:
        # Tests run as any user.
        return ProgramResult(0, "Administrator\n", "")

    def alive(self) -> list[FakeJob]:
        """The jobs that have not ended."""
        self.live = {id: job for id, job in self.live.items() if job.state not in _ENDED}
        return list(self.live.values())

    def of(self, uuid: str) -> FakeJob:
        """The last job of a container."""
        return [job for job in self.jobs.values() if job.uuid == uuid][-1]

    def schedule(self) -> None:
        """Start what waits, by priority, as far as there are slots."""
        alive = self.alive()
        waiting = sorted(
            (job for job in alive if job.state == "PENDING"), key=lambda job: -job.priority
        )
        running = sum(job.state == "RUNNING" for job in alive)
        for job in waiting[: max(0, self.slots - running)]:
            job.state, job.node = "RUNNING", "n1"
            if self.work is not None:
                job.task = asyncio.ensure_future(self._run(job, self.work))

    def end(self, job: FakeJob, state: str = "COMPLETED") -> None:
        """The job has ended like this."""
        job.state = state
        if job.task is not None:
            job.task.cancel()

    def requeue(self, job: FakeJob) -> None:
        """Its node is lost: it waits again, and its first run may go on."""
        job.state, job.reason, job.restarts, job.node = "PENDING", "BeginTime", job.restarts + 1, ""

    def forget(self, job: FakeJob) -> None:
        """A controller that comes back from an old state knows nothing of it; what runs goes on."""
        job.state = "FORGOTTEN"

    async def close(self) -> None:
        """End all jobs."""
        tasks = [job.task for job in self.jobs.values() if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: FakeJob, work: Work) -> None:
        try:
            if not self._chance(self.malice.crash) and not job.restarts:
                await work(job.uuid, job.token)
            job.state = "COMPLETED"
        except (LadingError, asyncio.CancelledError):
            job.state = job.state if job.state in _ENDED else "FAILED"

    def _squeue(self, arguments: Sequence[str], _: str) -> ProgramResult:
        self.schedule()
        every = "--states=all" in arguments
        named = next(
            (one.partition("=")[2].split(",") for one in arguments if one.startswith("--jobs=")),
            None,
        )
        users = next(
            (one.partition("=")[2].split(",") for one in arguments if one.startswith("--user=")),
            None,
        )
        lines = []
        seen = [job for job in self.alive() if job.id not in self.hidden]
        shown = seen if named is None else [job for name in named for job in self._named(name)]
        for job in (job for job in shown if users is None or job.user in users):
            if job.state not in _ENDED or (every and job.state != "FORGOTTEN"):
                fields = (
                    job.id,
                    job.name,
                    job.nice,
                    job.priority,
                    job.state,
                    job.reason,
                    job.restarts,
                    job.node,
                )
                lines.append("|".join(map(str, (*fields, job.comment))) + "|\n")
        return ProgramResult(0, "".join(lines), "")

    def _sbatch(self, arguments: Sequence[str], script: str) -> ProgramResult:
        if self.refusal:
            return ProgramResult(1, "", f"sbatch: error: {self.refusal}\n")
        options = dict(one.removeprefix("--").partition("=")[::2] for one in arguments)
        self._made += 1
        self.scripts.append(script)
        for index, uuid, given in _TASK.findall(script):
            id = f"{self._made}_{index}" if "array" in options else str(self._made)
            job = FakeJob(
                id=id,
                uuid=uuid,
                token=msgspec.json.decode(shlex.split(f"'{given}'")[0])["supervisor_token"],
                name=options["job-name"],
                comment=options["comment"],
                nice=int(options["nice"]),
                priority=4_294_901_760 - self._made - int(options["nice"]),
                arguments=tuple(arguments),
            )
            self.jobs[id] = self.live[id] = job
            self._bases.setdefault(str(self._made), []).append(job)
        return ProgramResult(0, f"{self._made}\n", "")

    def _scancel(self, arguments: Sequence[str], _: str) -> ProgramResult:
        states = [one.partition("=")[2].upper() for one in arguments if one.startswith("--state=")]
        for name in (one for one in arguments if not one.startswith("-")):
            for job in self._named(name):
                if job.state not in _ENDED and (not states or job.state in states):
                    self.end(job, "CANCELLED")
        return ProgramResult(0, "", "")

    def _scontrol(self, _: Sequence[str], text: str) -> ProgramResult:
        for name, nice in re.findall(r"update JobId=(\S+) Nice=(\d+)", text):
            for job in self._named(name):
                if job.state not in _ENDED:
                    job.priority += job.nice - int(nice)
                    job.nice = int(nice)
        return ProgramResult(0, "", "")

    def _named(self, name: str) -> list[FakeJob]:
        """The tasks of a job, or one of them."""
        return (
            self._bases.get(name) or [self.jobs[name]]
            if name in self.jobs or name in self._bases
            else []
        )

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance
