"""History of a container's waiting: stretches of time, each with its cause, and their text.

A dispatcher notes the cause at each look at its queue. A cause that comes again adds to its time,
so that a container that waited for two things by turns has two stretches, in the order in which
they first came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lading.core.scheduling.planning import Category, WaitStatus

SHORTEST = 1.0
"""Seconds of waiting that are worth a word."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A cause of waiting, in words that follow "waited 41 s ", and its time so far.

    `since` is when the container began to wait for it, on the clock of the dispatcher in seconds;
    None: it is over.
    """

    cause: str
    seconds: float = 0.0
    since: float | None = None

    def until(self, now: float) -> Wait:
        """The wait, ended at `now`."""
        return (
            self
            if self.since is None
            else Wait(self.cause, self.seconds + max(0.0, now - self.since))
        )


def cause(status: WaitStatus) -> str:
    """The cause in a status; "" where the container does not wait, but is prepared."""
    if status.cause or status.category is Category.PREPARING:
        return status.cause
    return f"({status.sentence.rstrip('.')})"


def note(waits: Sequence[Wait], status: WaitStatus, *, seen: float, now: float) -> tuple[Wait, ...]:
    """The waits of a container with this status at `now`. `seen`: when it began to wait, if nothing
    was noted yet.
    """
    current = cause(status)
    if any(one.cause == current and one.since is not None for one in waits):
        return tuple(waits)
    past = tuple(one.until(now) for one in waits)
    if not current:
        return past
    if any(one.cause == current for one in past):
        return tuple(replace(one, since=now) if one.cause == current else one for one in past)
    return (*past, Wait(current, since=now if waits else min(seen, now)))


def tell(waits: Sequence[Wait], *, now: float) -> str:
    """The waits in words, as "waited 41 s for 2 VCPUs, then 3 s ..."; "" when it was not long."""
    past = [one.until(now) for one in waits]
    if sum(one.seconds for one in past) < SHORTEST:
        return ""
    told = [f"{_shown(one.seconds)} {one.cause}" for one in past if one.seconds >= SHORTEST]
    longest = max(past, key=lambda one: one.seconds)
    return "waited " + (", then ".join(told) or f"{_shown(longest.seconds)} {longest.cause}")


def _shown(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
