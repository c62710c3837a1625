"""State of a run, derived from the states of its steps.

A step is a container request. The state of a run is stored nowhere, so that it is never older than
its steps: `run_state` derives it from their numbers. A run whose program ended without success has
failed, even if each step that it submitted has succeeded (`outcome`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lading.core.request_status import RequestStatus
from lading.core.values import JsonObject


class RunState(StrEnum):
    """State of a run for people."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"
    CANCELLED = "cancelled"


class RunOutcome(StrEnum):
    """How the program ended that submitted the steps, if it reported that."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Numbers of steps by status; `reused` are those of them that have the result of an earlier
    container. `repeated` are failed and cancelled steps that were submitted again: the later ones
    count in their place.
    """

    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    draft: int = 0
    reused: int = 0
    repeated: int = 0

    @property
    def total(self) -> int:
        """All steps."""
        return self.waiting + self.running + self.finished + self.draft

    @property
    def finished(self) -> int:
        """Steps that have ended, in whichever way."""
        return self.done + self.failed + self.cancelled

    @property
    def live(self) -> int:
        """Steps that wait or run."""
        return self.waiting + self.running

    @property
    def progress(self) -> float:
        """Part of the submitted steps that have ended, 0 to 1."""
        return self.finished / self.total if self.total else 0.0

    def shown(self) -> JsonObject:
        """Plain JSON, with the total."""
        return {
            "waiting": self.waiting,
            "running": self.running,
            "done": self.done,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "draft": self.draft,
            "reused": self.reused,
            "repeated": self.repeated,
            "total": self.total,
        }


def count_steps(
    numbers: Mapping[RequestStatus, int],
    *,
    reused: int = 0,
    repeated: Iterable[RequestStatus] = (),
) -> RunCounts:
    """The counts of a run from the numbers of its steps by status; `repeated` are the statuses of
    those among them that were submitted again.
    """
    counted = {str(status): number for status, number in numbers.items()}
    again = 0
    for status in repeated:
        counted[str(status)] -= 1
        again += 1
    return RunCounts(**counted, reused=reused, repeated=again)


def run_state(counts: RunCounts, outcome: RunOutcome | None = None) -> RunState:
    """The state of a run; `outcome` is that of its program, None while it is not known.

    While steps wait or run, the run goes on. A failed step outweighs a cancelled one: the steps
    after a failure are cancelled with it.
    """
    if counts.live:
        has_begun = counts.running or counts.finished
        return RunState.RUNNING if has_begun else RunState.WAITING
    if outcome is RunOutcome.DONE:
        # Its program knows that failures were made good, as by another try.
        return RunState.DONE
    if counts.failed or outcome is RunOutcome.FAILED:
        return RunState.FAILED
    if counts.cancelled or outcome is RunOutcome.CANCELLED:
        return RunState.CANCELLED
    return RunState.DONE if counts.finished else RunState.WAITING


def state_with_runner(counts: RunCounts, runner: RequestStatus) -> RunState:
    """The state of a run that a container carries out, such as that of a CWL workflow: the runner
    decides, and its steps tell whether the run has begun.
    """
    if runner is RequestStatus.WAITING:
        return RunState.RUNNING if counts.running else RunState.WAITING
    return RunState.WAITING if runner is RequestStatus.DRAFT else RunState(str(runner))
