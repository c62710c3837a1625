"""Checks of a site, of a cloud or of a cluster, one after another: each has a name, work that ends
with a finding or with a fault, and a remedy for the fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from lading.core.errors import LadingError

_Answer = TypeVar("_Answer")


class CheckState(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckFault(LadingError):
    """A check failed; `remedy` says what to do."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(finding)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStep:
    """A check that is over: the finding or the fault, the remedy for a fault, and the time that it
    took. `subject` has the thing that was checked, by its kind: {"instance": "i-123"}.
    """

    name: str
    state: CheckState
    finding: str
    remedy: str = ""
    subject: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it found no fault."""
        return self.state is CheckState.OK


class CheckRunner:
    """Carries out checks. `remedies` has the remedy for a fault of each, `remedy_of` a better one
    for an error, or "". `tell` is called with each step that is over, `doing` with the check that
    begins; `clock` returns seconds.
    """

    def __init__(
        self,
        remedies: Mapping[str, str],
        *,
        tell: Callable[[CheckStep], None],
        clock: Callable[[], float],
        doing: Callable[[str], None] = lambda _: None,
        remedy_of: Callable[[str, LadingError], str] = lambda _name, _error: "",
    ) -> None:
        self._remedies = remedies
        self._remedy_of = remedy_of
        self._tell = tell
        self._clock = clock
        self._began = clock()
        self.doing = doing
        self.subject: dict[str, str] = {}
        """The subject of the checks that follow."""
        self.failed: set[str] = set()
        """Names of the checks that failed or were skipped."""

    async def attempt(
        self, name: str, work: Awaitable[_Answer], describe: Callable[[_Answer], str] = str
    ) -> _Answer | None:
        """The result of a check, whose finding is `describe(result)`; None when it failed."""
        self.doing(name)
        try:
            answer = await work
        except CheckFault as error:
            self.fail(name, error.message, error.remedy)
        except LadingError as error:
            self.fail(name, error.message, self._remedy_of(name, error))
        else:
            self.succeed(name, describe(answer))
            return answer
        return None

    def succeed(self, name: str, finding: str) -> None:
        """Tell that a check found no fault."""
        self._end(name, CheckState.OK, finding)

    def fail(self, name: str, fault: str, remedy: str = "") -> None:
        """Tell that a check found a fault."""
        self._end(name, CheckState.FAILED, fault, remedy or self._remedies.get(name, ""))

    def skip(self, name: str, needed: str) -> None:
        """Tell that a check was not carried out, as it needs the result of one that failed."""
        self._end(name, CheckState.SKIPPED, f"it needs what '{needed}' did not find")

    def _end(self, name: str, state: CheckState, finding: str, remedy: str = "") -> None:
        now = self._clock()
        step = CheckStep(
            name=name,
            state=state,
            finding=finding,
            remedy=remedy,
            subject=dict(self.subject),
            seconds=round(now - self._began, 3),
        )
        self._began = now
        if state is not CheckState.OK:
            self.failed.add(name)
        self._tell(step)
