"""Backfill in time: starts on room of a worker that is kept for a container which came first.

Room that is kept for the head is idle until the containers before it have ended. A later container
may use it meanwhile

- if it is expected to end before the head can start: its limit (`max_run_time`) or twice the time
  that its tool usually takes is over before enough of the others have ended;
- if one of these times is not known, only for the first `limit` seconds for which room is kept for
  the head, and only while the containers before the head alone still keep it from starting.

So the head is delayed by no more than an expectation that was wrong, or by containers that began
within the limit. Once it waits for nothing but containers that have passed it, no further one of
unknown run time passes. After the limit an expectation does not suffice then either: a tool that
takes longer than it usually does lets the next one pass, and so on for ever. Only a `max_run_time`,
at which a container is ended, is certain. Each of them ends one day: the head never starves.

Times are seconds on the dispatcher's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from lading.core.containers.attempts.spot import about
from lading.core.resources import Resources, total
from lading.core.scheduling.planning import FleetWorker, Occupant, Place, TrackedContainer

# Of its usual time; a run that takes longer is rare.
_MARGIN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The container for which room of a worker is kept, `since` a time; for `queue_place` and
    `seen_at` see `TrackedContainer`.
    """

    need: Resources
    queue_place: Place
    seen_at: float
    since: float

    @classmethod
    def waiting(cls, container: TrackedContainer, *, since: float) -> Head:
        """The head of the queue."""
        place, seen = container.place, container.seen_at
        return cls(need=container.need, queue_place=place, seen_at=seen, since=since)

    @classmethod
    def asking(cls, occupant: Occupant) -> Head:
        """One that is prepared, and waits on its worker since it was started there."""
        # Without a known record it comes first: there is no reason to let it wait.
        place, started = occupant.queue_place or (0, "", occupant.uuid), occupant.started
        return cls(need=occupant.need, queue_place=place, seen_at=started, since=started)

    def is_blocked(self, capacity: Resources, occupants: Sequence[Occupant]) -> bool:
        """Whether the occupants that have not passed it keep it from starting."""
        before = total(
            occupant.need
            for occupant in occupants
            if not occupant.comes_after(self.queue_place, since=self.seen_at)
        )
        return not self.need.fits(capacity - before)

    def starts_at(self, capacity: Resources, occupants: Sequence[Occupant]) -> float:
        """When enough of the occupants are expected to have ended; infinity: not known."""
        room = capacity - total(occupant.need for occupant in occupants)
        for occupant in sorted(occupants, key=lambda occupant: occupant.ends):
            room += occupant.need
            if self.need.fits(room):
                return occupant.ends
        return inf


def run_bounds(container: TrackedContainer) -> tuple[float, float]:
    """Seconds within which a container is expected to end, and after which it is ended; infinity:
    not known, never.
    """
    limit = container.max_run_time or inf
    return min(limit, container.run_time * _MARGIN or inf), limit


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a head can start, infinity where that is not known, and whether the occupants that have
    not passed it keep it from that.
    """

    starts_at: float
    is_blocked: bool


def outlook(head: Head, *, capacity: Resources, occupants: Sequence[Occupant]) -> Outlook:
    """The outlook of a head on a worker with these occupants."""
    starts_at = head.starts_at(capacity, occupants)
    return Outlook(starts_at, head.is_blocked(capacity, occupants))


def may_pass(bounds: tuple[float, float], outlook: Outlook, *, now: float, until: float) -> bool:
    """Whether a container with these `run_bounds` may start on free room that is kept for a head,
    which those of unknown run time may pass `until` a time.
    """
    expected, certain = bounds
    is_early = now < until
    longest = expected if outlook.is_blocked or is_early else certain
    return now + longest <= outlook.starts_at < inf or (is_early and outlook.is_blocked)


def admitted(
    worker: FleetWorker, asking: Mapping[str, Place], *, now: float = 0.0, limit: float = 0.0
) -> tuple[str, ...]:
    """The occupants of a worker that ask for their resources and may have them now.

    `asking` has the place in the queue of each container that asks; `limit` is the time for which
    those of unknown run time may pass the first one that has no room.

    They go in the order of the queue, so that a large one is not kept waiting by small ones.
    """
    present = [occupant for occupant in worker.occupants if occupant.uuid not in asking]
    room = worker.capacity - total(occupant.need for occupant in present)
    waiting = {occupant.uuid: occupant for occupant in worker.occupants if occupant.uuid in asking}
    # Workflow runners are let in first and never wait: they take no room that others could have.
    admitted_uuids = [
        occupant.uuid for occupant in worker.workflow_runners if occupant.uuid in asking
    ]
    head: Head | None = None
    for uuid in sorted(waiting, key=lambda uuid: asking[uuid]):
        occupant = waiting[uuid]
        is_room = occupant.need.fits(room) and worker.has_gpus(occupant, present)
        if head is None and not is_room:
            head = Head.asking(replace(occupant, queue_place=asking[uuid]))
        elif head is not None and is_room:
            ahead = outlook(head, capacity=worker.capacity, occupants=present)
            longest = (occupant.ends - now) * _MARGIN
            is_room = may_pass((longest, inf), ahead, now=now, until=head.since + limit)
        if is_room:
            room -= occupant.need
            present.append(occupant)
            admitted_uuids.append(uuid)
    return tuple(admitted_uuids)


def head_sentence(limit: float) -> str:
    """Sentence for a container that room is kept for; it follows another one. "" without a
    limit.
    """
    if not limit:
        return ""
    return (
        " Room is kept for it: smaller ones pass it if they are expected to end before it can "
        f"start, and for {_span(limit)} any that fits now."
    )


def behind_sentence(limit: float) -> str:
    """Sentence for a container that would hold up another one; it follows the reason. "" without a
    limit.
    """
    if not limit:
        return ""
    return (
        " It may pass if it is expected to end before that one can start (by its max_run_time, or "
        f"earlier runs of its program), or within {_span(limit)} from when room is kept for that "
        "one."
    )


def _span(limit: float) -> str:
    return about(limit).removeprefix("about ")
