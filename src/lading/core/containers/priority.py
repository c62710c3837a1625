"""The priority of a container, computed from the requests that want it.

    P(container) = max over its wanted requests of: P(parent) if the request was made inside a
    container that exists,
                   else priority * 2**50 - milliseconds since 1970 when the request was created; 0
                   if there are none

So a higher user priority always wins, then the older request, and children rank with their parent.
Integers stay exact (they exceed 2**53). See docs/spec/containers, section Priority.

A server recomputes a set of containers so: walk down from it (containers in LIVE states of requests
whose `requesting_container_uuid` is in the set, until nothing is added), load every Committed
request that points at a container of the set and every container that those requests come from,
then `propagate`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from lading.core.containers.request import ContainerRequest
from lading.core.timestamps import parse_time

STEP = 1 << 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def own_priority(priority: int, created_at: str) -> int:
    """What a request that was not made by a container is worth; `created_at` is an API
    timestamp.
    """
    microseconds = (parse_time(created_at) - _EPOCH) // _MICROSECOND
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
    """The new priority of those containers in `recompute` whose priority is not what it should be.

    `priorities` has the stored priority of every container named; `requests` all Committed requests
    that point at a container in `recompute`. Parents that are recomputed too count with their new
    value. A container that asked, directly or not, for itself gains nothing by that.
    """
    wanting: defaultdict[str, list[ContainerRequest]] = defaultdict(list)
    for request in requests:
        wanting[request.container_uuid or ""].append(request)
    due = dict.fromkeys(recompute, 0)
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
    """The containers in `due`, each after those in `due` that asked for it; a cycle is cut where it
    is entered.
    """
    ordered: dict[str, None] = {}
    entered: set[str] = set()
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
