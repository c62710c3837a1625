"""Containers that a dispatcher locks in place of one that another dispatcher has locked first.

Dispatchers with free room plan with the same queue, so all of them try the same next container. A
call that names alternatives locks the first free one of them (docs/spec/dispatch, section Locking).

A container is an alternative of a start if the plan would have been the same with it in the place
of the started one:

- It comes after the started container in the order of the queue and asks for the same.
- Each container between the two is being started, occupies a worker, is held, or asks for the same:
  any other one might start in the room that a lost lock leaves, and must not be overtaken.
- Neither is a gang, and the start gives no more than the container needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from lading.core.resources import Resources
from lading.core.scheduling.planning import (
    DispatchPlan,
    Snapshot,
    TrackedContainer,
    by_place,
)

_NOTHING = Resources()
_wanted = attrgetter(
    "need", "partitions", "gpu", "growth", "ram", "max_run_time", "runs_workflow", "preemptible",
    "prefers", "deadline", "run_time", "image", "user",
)  # fmt: skip
"""All that planners and fleets look at, besides the place in the queue."""


def find_alternatives(
    snapshot: Snapshot, plan: DispatchPlan, *, most: int
) -> Mapping[str, tuple[str, ...]]:
    """For the starts of `plan`, by uuid, at most `most` alternatives in the order of the queue;
    starts without any are left out.
    """
    plain = {start.uuid for start in plan.starts if start.extra == _NOTHING and not start.others}
    passed = {start.uuid for start in plan.starts} - plain
    passed |= snapshot.present | snapshot.held_back.keys()
    runs, left = _Runs(most), len(plain)
    for container in sorted(snapshot.queue, key=by_place):
        if container.uuid in plain:
            left -= 1
            runs.start(container)
        elif container.uuid not in passed:
            runs.wait(container)
            if not left and not runs.are_open:
                break
    return runs.close_all()


class _Runs:
    """The starts of each need that containers further back may replace, while the queue is walked
    through. Lives inside one call of `find_alternatives`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[object, tuple[list[str], list[str]]] = {}
        self._alternatives: dict[str, tuple[str, ...]] = {}

    @property
    def are_open(self) -> bool:
        """Whether a start still takes alternatives."""
        return bool(self._open)

    def start(self, container: TrackedContainer) -> None:
        """A container that is being started."""
        if container.nodes == 1:
            self._open.setdefault(_wanted(container), ([], []))[0].append(container.uuid)

    def wait(self, container: TrackedContainer) -> None:
        """A container that goes on waiting: an alternative of those that ask for the same, and the
        end of the alternatives of all others.
        """
        request_key = _wanted(container)
        for open_key in [key for key in self._open if key != request_key]:
            self._close(open_key)
        if request_key in self._open and container.nodes == 1:
            alternatives = self._open[request_key][1]
            alternatives.append(container.uuid)
            if len(alternatives) >= self._most:
                self._close(request_key)

    def close_all(self) -> Mapping[str, tuple[str, ...]]:
        """The alternatives of each start that has some."""
        for key in list(self._open):
            self._close(key)
        return self._alternatives

    def _close(self, key: object) -> None:
        starts, alternatives = self._open.pop(key)
        if alternatives:
            self._alternatives |= dict.fromkeys(starts, tuple(alternatives))
