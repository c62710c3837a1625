"""The priority of a container, computed from the requests that want it.

    P(container) = max over its wanted requests of: P(parent) if the request was made inside a container that exists,
                   else priority * 2**50 - milliseconds since 1970 when the request was created; 0 if there are none

So a higher user priority always wins, then the older request, and children rank with their parent. Integers stay
exact (they exceed 2**53). Source: api-contract 1.7.

A server recomputes a set of containers so: walk down from it (containers in LIVE states of requests whose
`requesting_container_uuid` is in the set, until nothing is added), load every Committed request that points at a
container of the set and every container that those requests come from, then `propagate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lading.core.request import ContainerRequest

STEP = 1 << 50


def own_priority(priority: int, created_at: str) -> int:
    """What a request that was not made by a container is worth."""
    raise NotImplementedError


def container_priority(requests: Iterable[ContainerRequest], parents: Mapping[str, int | None]) -> int:
    """The priority of the container that `requests` point at.

    `parents` gives the priority of each requesting container; an absent or null one counts as no parent.
    """
    raise NotImplementedError


def propagate(priorities: Mapping[str, int | None], requests: Iterable[ContainerRequest], recompute: Iterable[str]) -> dict[str, int]:
    """The new priority of those containers in `recompute` whose priority is not what it should be.

    `priorities` has the stored priority of every container named; `requests` all Committed requests that point at a
    container in `recompute`. Parents that are recomputed too count with their new value. A cycle of requests counts
    as if its first request had no parent.
    """
    raise NotImplementedError
