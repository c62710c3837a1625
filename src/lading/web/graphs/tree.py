"""The requests that belong together: those that a request made, by its container, and those that
it depends on or whose outputs it takes; and the same of each of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.core.ids import Infix, infix_of, is_uuid

_MOST: Final = 2000
"""Requests of a tree."""
_DEEPEST: Final = 12
"""Steps from the first request."""
_PAGE: Final = 500
_SELECT: Final = (
    "uuid", "name", "state", "priority", "command", "created_at", "container_uuid", "depends_on",
    "mounts",
)  # fmt: skip
_OF_CONTAINER: Final = (
    "uuid", "state", "exit_code", "created_at", "started_at", "finished_at", "runtime_status",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTree:
    """Requests with their containers, the first one first; `is_cut`: there are more."""

    outcomes: tuple[RequestOutcome, ...]
    is_cut: bool


async def find_tree(api: ApiClient, uuid: str) -> RequestTree:
    """The tree of a request, as far as the reader may see it. Raises NotFound."""
    first = await api.get("container_requests", uuid, select=_SELECT)
    found, ahead = {uuid: first}, [first]
    for _ in range(_DEEPEST):
        ahead = [one async for one in _next(api, ahead, found)]
        if not ahead or len(found) > _MOST:
            break
    kept = list(found.values())[:_MOST]
    held = {
        one["uuid"]: one
        async for one in _listed(
            api, "containers", "uuid", (one["container_uuid"] for one in kept), _OF_CONTAINER
        )
    }
    outcomes = (RequestOutcome(one, held.get(one["container_uuid"] or "")) for one in kept)
    return RequestTree(outcomes=tuple(outcomes), is_cut=bool(ahead))


def needed(request: Record) -> Iterator[str]:
    """The uuids of requests that a request depends on, or whose outputs it takes."""
    mounted = [mount.get("container_request") for mount in (request["mounts"] or {}).values()]
    for one in (*(request["depends_on"] or ()), *mounted):
        if isinstance(one, str) and is_uuid(one) and infix_of(one) == Infix.REQUEST:
            yield one


async def _next(
    api: ApiClient, ahead: list[Record], found: dict[str, Record]
) -> AsyncIterator[Record]:
    """The requests one step further, which are added to `found`."""
    makers = [one["container_uuid"] for one in ahead]
    wanted = [uuid for one in ahead for uuid in needed(one) if uuid not in found]
    for field, values in (("requesting_container_uuid", makers), ("uuid", wanted)):
        async for one in _listed(api, "container_requests", field, values, _SELECT):
            if one["uuid"] not in found and len(found) <= _MOST:
                found[one["uuid"]] = one
                yield one


async def _listed(
    api: ApiClient, plural: str, field: str, values: Iterable[str | None], select: Iterable[str]
) -> AsyncIterator[Record]:
    wanted = list(dict.fromkeys(one for one in values if one))
    for start in range(0, len(wanted), _PAGE):
        some = wanted[start : start + _PAGE]
        for one in await api.list(
            plural,
            filters=[[field, "in", some]],
            order=["created_at asc", "uuid asc"],
            select=select,
            limit=1000,
        ):
            yield one
