"""Priority of a container, computed from the requests that want it.

    P(container) = max over its wanted requests of:
                   P(parent) if the request was made inside a container that exists,
                   else priority * 2**50 - milliseconds since 1970 of the request's creation;
                   0 without requests

So a higher user priority always wins, then the older request, and children rank with their parent.
Integers are exact (they exceed 2**53). See docs/spec/containers, section Priority.

A server recomputes a set of containers as follows: add their descendants (containers in LIVE states
of requests whose `requesting_container_uuid` is in the set, repeatedly), load every Committed
request that points at a container of the set and the containers that made those requests, then call
`propagate`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from lading.core.containers.request import ContainerRequest
from lading.core.timestamps import parse_time

# 2**50 milliseconds are 35,000 years, so the time of creation never outweighs a step of priority.
STEP = 1 << 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def own_priority(priority: int, created_at: str) -> int:
    """Value of a request that was not made by a container; `created_at` is an API timestamp."""
    microseconds = (parse_time(created_at) - _EPOCH) // _MICROSECOND
    # Rounded to milliseconds, in integers.
    return priority * STEP - (microseconds + 500) // 1000


def container_priority(
    requests: Iterable[ContainerRequest], parents: Mapping[str, int | None]
) -> int:
    """The priority of the container that `requests` point at.

    `parents` gives the priority of each requesting container; an absent or null one counts as no
    parent.
    """
    return max((_worth(one, parents) for one in requests if one.is_wanted), default=0)


def propagate(
    priorities: Mapping[str, int | None],
    requests: Iterable[ContainerRequest],
    *,
    recompute: Iterable[str],
) -> dict[str, int]:
    """The new priorities of those containers in `recompute` whose stored priority is wrong.

    `priorities` has the stored priority of every named container; `requests` all Committed requests
    that point at a container in `recompute`. Recomputed parents count with their new value. A
    container that requested itself, directly or not, gains nothing by that.
    """
    wanting: defaultdict[str, list[ContainerRequest]] = defaultdict(list)
    for request in requests:
        wanting[request.container_uuid or ""].append(request)
    due = dict.fromkeys(recompute, 0)
    # Zero until computed: a cycle contributes nothing.
    current = {**priorities, **due}
    for uuid in _parents_first(due, wanting):
        due[uuid] = current[uuid] = container_priority(wanting[uuid], current)
    return {uuid: value for uuid, value in due.items() if value != priorities.get(uuid)}


def _worth(request: ContainerRequest, parents: Mapping[str, int | None]) -> int:
    inherited = parents.get(request.requesting_container_uuid or "")
    if inherited is not None:
        return inherited
    return own_priority(request.priority or 0, request.created_at)


def _parents_first(
    due: Collection[str], wanting: Mapping[str, list[ContainerRequest]]
) -> list[str]:
    """The containers in `due`, each after its requesting containers in `due`; a cycle is cut where
    it is entered.
    """
    ordered: dict[str, None] = {}
    entered: set[str] = set()
    # An explicit stack: workflows may be nested deeper than Python's recursion limit.
    stack = list(due)
    while stack:
        uuid = stack[-1]
        if uuid in entered:
            ordered[stack.pop()] = None
            continue
        entered.add(uuid)
        parents = (one.requesting_container_uuid for one in wanting.get(uuid, ()))
        stack.extend(
            parent
            for parent in parents
            if parent is not None and parent in due and parent not in entered
        )
    return list(ordered)
