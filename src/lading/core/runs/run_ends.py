"""The end of a run, which is told to webhooks once, and again if the run goes on.

The end is derived from the steps: no step waits or runs. A program submits one step after the
other, so that a run without live steps may go on. Its end counts `SETTLED` seconds later. It counts
at once where its program has reported the end, or where all its steps were submitted together. The
last reported end is stored, so that a further one has the next number.
Source: docs/spec/webhooks, section Ends of runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.runs.attempts import RunAttempt
from lading.core.runs.states import RunCounts, RunState

SETTLED: Final = 60.0
"""Seconds without a live step after which a run has ended that no program reported."""
EVENT: Final = "lading.group.run_end"
"""The type of the event."""
_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
_TOGETHER: Final = "template"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEnd:
    """The last end of a run that was told: the number of its attempt, how many ends of that were
    told, and the state and the number of ended steps then.
    """

    attempt: int
    number: int
    state: str
    finished: int


def settling_seconds(attempt: RunAttempt) -> float:
    """Seconds after its last change until the end of an attempt counts."""
    is_whole = attempt.ended_at is not None or attempt.source.get("kind") == _TOGETHER
    return 0.0 if is_whole else SETTLED


def next_end(
    last: ToldEnd | None, attempt: RunAttempt, counts: RunCounts, state: RunState
) -> ToldEnd | None:
    """The end that is to be told now; None while the run goes on, or where nothing has ended since
    the last one.
    """
    if state in _LIVE or counts.live:
        return None
    is_same = last is not None and last.attempt == attempt.number
    number = last.number + 1 if last is not None and is_same else 1
    end = ToldEnd(attempt=attempt.number, number=number, state=str(state), finished=counts.finished)
    if last is None or attempt.number > last.attempt:
        return end
    if not is_same:
        return None
    has_news = end.finished > last.finished or end.state != last.state
    return end if has_news else None


def end_line(run: dict[str, object]) -> str:
    """The end of a run in words: `attempt 2 failed: 48 of 50 done, 1 failed`."""
    counts = run.get("counts")
    numbers = counts if isinstance(counts, dict) else {}
    parts = [f"{numbers.get('done', 0)} of {numbers.get('total', 0)} done"]
    parts += [
        f"{numbers[name]} {name}" for name in ("failed", "cancelled", "reused") if numbers.get(name)
    ]
    again = f", end {run['number']}" if run.get("number") not in (None, 1) else ""
    return f"attempt {run.get('attempt')}{again} {run.get('state')}: {', '.join(parts)}"
