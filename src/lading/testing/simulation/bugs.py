"""Bugs to plant, to see that the simulation finds them: each takes away one safeguard of the real code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum

from lading.core.reconcile import Action, Case, Standing, View, decide
from lading.dispatch import observe
from lading.dispatch.actions import Actions
from lading.dispatch.queue import Queue, Record


class Bug(StrEnum):
    """What is broken."""

    FENCING = "missing fencing check"
    STALE_LIST = "stale list applied over newer news"
    LIVE_UNLOCK = "unlock of a live container"


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[bool]:
    """The bug is there while inside; yields whether the server still checks tokens."""
    with contextlib.ExitStack() as undo:
        if bug is Bug.STALE_LIST:
            learn = Queue._learn
            undo.callback(setattr, Queue, "_learn", learn)
            setattr(Queue, "_learn", _learn_anything)  # noqa: B010 - a name that is assigned is checked
        if bug is Bug.LIVE_UNLOCK:
            undo.callback(setattr, observe, "decide", decide)
            setattr(observe, "decide", _decide_blindly)  # noqa: B010
            undo.callback(setattr, Actions, "requeue", Actions.requeue)
            setattr(Actions, "requeue", _requeue_blindly)  # noqa: B010
        yield bug is not Bug.FENCING


def _learn_anything(queue: Queue, record: Record) -> None:
    queue._store(record)


def _decide_blindly(case: Case) -> Action:
    """As `decide`, but a process that is seen is taken for none in a locked container."""
    if case.standing is Standing.LOCKED and case.view is View.ALIVE and case.fresh:
        return Action.REQUEUE
    return decide(case)


async def _requeue_blindly(actions: Actions, uuid: str) -> None:
    answer = await actions._client.action("containers", uuid, "unlock")
    actions._queue.answer(answer)
