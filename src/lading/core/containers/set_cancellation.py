"""Cancellation of many waiting requests together: which ones a few statements may change as a set.

A request that is cancelled alone may change others: requests that depend on it end, the next one of
its group has its turn, a container that others want goes on. Such requests are cancelled one by
one. Of all others the outcome is known beforehand, and is the same: the request is Final
(`request.CANCELLED`), its container Cancelled (`lifecycle.cancelled_waiting`), and nothing follows.

Requests are cancelled newest first. So a request of a group that waits for its turn is cancelled
before the one that would give it its turn, and a dependent before its dependency.

Source: docs/spec/containers, section Request states.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from lading.core.containers.container import ContainerState
from lading.core.containers.request_phases import RequestState


# A struct: a million of them are made, in a third of the time that a dataclass takes.
class WaitingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide how a request is cancelled.

    `container_state`, `container_priority` and `lock_count` are those of its container;
    `is_shared`: another Committed request wants it. `has_dependents`: requests wait for this one.
    `has_costs`: its earlier attempts cost something. `has_times`: one of expires_at, start_after
    and retry_after is set. `has_charges`: a quota or a share was charged for its container, or
    holds it back. `is_refused`: the user may not change it. `has_priority`: its own is above 0.
    """

    uuid: str
    state: RequestState
    container_state: ContainerState | None
    container_priority: int = 0
    lock_count: int = 0
    max_parallel: int = 0
    is_shared: bool = False
    has_dependents: bool = False
    has_costs: bool = False
    has_times: bool = False
    has_charges: bool = False
    is_refused: bool = False
    has_priority: bool = True


def is_cancelled_in_set(request: WaitingRequest) -> bool:
    """Whether cancelling the request ends it and its container, and changes nothing else."""
    return (
        request.state is RequestState.COMMITTED
        # A container that was locked before has tokens, costs and times.
        and (request.container_state, request.lock_count) == (ContainerState.QUEUED, 0)
        # A request out of turn takes no place that others of its group wait for.
        and not (request.max_parallel and request.container_priority)
        and not (
            request.is_shared
            or request.has_dependents
            or request.has_costs
            or request.has_times
            or request.has_charges
        )
    )


def is_stopping(request: WaitingRequest) -> bool:
    """Whether the request was cancelled and its container runs: it is Final once that has ended."""
    return not request.has_priority and request.container_state is ContainerState.RUNNING


@dataclass(frozen=True, slots=True)
class CancellationStep:
    """The first requests of a page: those that are cancelled as a set, those one by one, and the
    number of those that the user may not change; `last` is the last of all. Requests that are
    stopping are in none of them.
    """

    together: tuple[str, ...]
    singly: tuple[str, ...]
    refused: int
    last: str


def plan_step(page: Iterable[WaitingRequest], *, most_singly: int) -> CancellationStep:
    """The next step of a cancellation, of a page that is not empty; it ends before there are more
    than `most_singly` requests (1 or more) that are cancelled one by one.
    """
    together: list[str] = []
    singly: list[str] = []
    refused, last = 0, ""
    for request in page:
        if request.is_refused:
            refused += 1
        elif is_stopping(request):
            pass
        elif is_cancelled_in_set(request):
            together.append(request.uuid)
        elif len(singly) < most_singly:
            singly.append(request.uuid)
        else:
            break
        last = request.uuid
    return CancellationStep(tuple(together), tuple(singly), refused, last)
