"""Slurm's programs on a bad day: they fail, hang, say that they failed though they did not, and
show half the truth.

Made as `Unreliable(FakeSlurm(...), Malady(), seed=1)`, one for each dispatcher, and given to
`Slurm`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from lading.dispatch.fleets.batch.programs import OutcomeUnknown, ProgramResult, ProgramRunner

_UUIDS = re.compile(r"    uuid=(\S+)\n")
# The last part of the uuid of a container, or of a token, which is no container's.
_NAME = re.compile(r"(?<![0-9a-z])[0-9a-z]{15}(?![0-9a-z])")
_EITHER = (
    "{0}: error: Socket timed out on send/recv operation\n",
    "{0}: error: Batch job submission failed: Zero Bytes were transmitted or received\n",
    "",
)
"""It may have been done, or not."""
_NOT_DONE = (
    "{0}: error: Unable to contact slurm controller (connect failure)\n",
    "{0}: error: Batch job submission failed: Unable to contact slurm controller\n",
    "{0}: error: Slurm temporarily unable to accept job, sleeping and retrying\n",
    "slurmctld: error: something that nobody has ever read\n",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Malady:
    """Chances from 0 to 1, times in seconds. Three commands in ten fail."""

    away: float = 0.12
    """A program says that it failed, and nothing was done."""
    pretend: float = 0.08
    """It says that it failed, and all was done."""
    hang: float = 0.05
    """It gives no answer, and nothing was done."""
    deaf: float = 0.05
    """It gives no answer, and all was done."""
    cut: float = 0.05
    """What `squeue` prints ends too soon, and it says that all is well."""
    stale: float = 0.05
    """`squeue` shows what it was `age` ago at most. After an answer that is not true the next one
    is, and so is the next about the whole queue."""
    age: float = 30.0
    lag: float = 3.0
    """The most that a program takes; what it does it does at some moment of that."""

    @property
    def failing(self) -> float:
        """The share of commands that fail."""
        return self.away + self.pretend + self.hang + self.deaf


class Unreliable:
    """Implements `Runner` over another. `harmed` hears of the containers whose submission failed,
    or was hidden.

    `commands` and `failed` count, `lies` those of `looks`, the programs that look at the queue.
    """

    def __init__(
        self,
        slurm: ProgramRunner,
        malady: Malady,
        *,
        seed: int,
        harmed: Callable[[str], None] = lambda _: None,
        looks: Collection[str] = ("squeue",),
    ) -> None:
        self.malady = malady
        self.commands = self.failed = self.lies = 0
        self.failed_at = float("-inf")
        self._slurm = slurm
        self._random = Random(seed)
        self._harmed = harmed
        self._looks = looks
        self._lied: set[bool] = set()
        """About the whole queue at the last look at it, about some jobs in the last answer."""
        self._shown: dict[tuple[str, ...], tuple[float, str]] = {}

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        """Run a program, or seem to."""
        malady, program = self.malady, arguments[0]
        before = self._random.uniform(0.0, malady.lag)
        await asyncio.sleep(before)
        self.commands += 1
        fault = self._draw()
        if fault:
            self.failed, self.failed_at = self.failed + 1, asyncio.get_running_loop().time()
            self._harm(_UUIDS.findall(stdin.decode()))
        done = ProgramResult(1, "", "")
        if fault not in ("away", "hang"):
            done = await self._slurm(arguments, stdin=stdin, timeout=timeout)
        if fault in ("hang", "deaf"):
            await asyncio.sleep(timeout - before)
            raise OutcomeUnknown(f"{program}: no answer from Slurm in {timeout:g} s")
        if fault:
            done = ProgramResult(
                1,
                "",
                self._random.choice(_EITHER + (_NOT_DONE if fault == "away" else ())).format(
                    program
                ),
            )
        elif program in self._looks and not done.code:
            done = ProgramResult(0, self._colour(tuple(arguments), done.out), "")
        await asyncio.sleep(self._random.uniform(0.0, malady.lag - before))
        return done

    def _draw(self) -> str:
        luck, malady = self._random.random(), self.malady
        for fault in ("away", "pretend", "hang", "deaf"):
            luck -= getattr(malady, fault)
            if luck < 0.0:
                return fault
        return ""

    def _colour(self, arguments: tuple[str, ...], truth: str) -> str:
        """What `squeue` prints in place of the truth."""
        now, luck, said = asyncio.get_running_loop().time(), self._random.random(), truth
        some = "--states=all" in arguments
        made, old = self._shown.get(arguments, (now, truth))
        if not self._lied:
            if luck < self.malady.cut:
                said = truth[: self._random.randint(0, len(truth))]
            elif luck < self.malady.cut + self.malady.stale and now - made <= self.malady.age:
                said = old
        self._lied = (self._lied & {False} if some else set()) | (
            {some} if said != truth else set()
        )
        self.lies += said != truth
        if said != truth:
            self._harm(_containers(truth) - _containers(said))
        else:
            self._shown[arguments] = now, truth
        return said

    def _harm(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            self._harmed(uuid)


def _containers(answer: str) -> frozenset[str]:
    """The containers in an answer, by the marks of their jobs (`batch_system.job_mark`)."""
    return frozenset(f"zzzzz-dz642-{name}" for name in _NAME.findall(answer))
