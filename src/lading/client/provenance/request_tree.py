"""The requests that belong together: those that a request made, by its container, and those that
it depends on or whose outputs it takes; and the same of each of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.core.ids import Infix, infix_of, is_uuid

_MOST: Final = 2000
"""Requests of a tree."""
_DEEPEST: Final = 12
"""Steps from the first request."""
# The uuids of one filter; the address of a list call would become too long beyond some 1000.
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


async def find_tree(
    api: ApiClient, uuid: str, *, most: int = _MOST, page: int = _PAGE
) -> RequestTree:
    """The tree of a request, as far as the reader may see it: the first `most` requests, listed
    `page` at a time. Raises NotFound.
    """
    first = await api.get("container_requests", uuid, select=_SELECT)
    found, ahead = {uuid: first}, [first]
    for _ in range(_DEEPEST):
        ahead = await _next(api, ahead, found, most=most, page=page)
        if not ahead or len(found) > most:
            break
    kept = list(found.values())[:most]
    held = {
        one["uuid"]: one
        async for one in _listed(
            api, "containers", "uuid", (one["container_uuid"] for one in kept), _OF_CONTAINER, page
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
    api: ApiClient, ahead: list[Record], found: dict[str, Record], *, most: int, page: int
) -> list[Record]:
    """The requests one step further, the oldest first, which are added to `found`; no more are
    looked for once it has more than `most`.
    """
    makers = [one["container_uuid"] for one in ahead]
    wanted = [uuid for one in ahead for uuid in needed(one) if uuid not in found]
    fresh: dict[str, Record] = {}
    for field, values in (("requesting_container_uuid", makers), ("uuid", wanted)):
        async with aclosing(
            _listed(api, "container_requests", field, values, _SELECT, page)
        ) as listed:
            async for one in listed:
                if one["uuid"] not in found:
                    fresh[one["uuid"]] = one
                if len(found) + len(fresh) > most:
                    break
    ordered = sorted(fresh.values(), key=lambda one: (one["created_at"], one["uuid"]))
    found |= {one["uuid"]: one for one in ordered}
    return ordered


async def _listed(
    api: ApiClient,
    plural: str,
    field: str,
    values: Iterable[str | None],
    select: Iterable[str],
    page: int,
) -> AsyncGenerator[Record]:
    wanted = list(dict.fromkeys(one for one in values if one))
    for start in range(0, len(wanted), page):
        some = [field, "in", wanted[start : start + page]]
        # A container may have made any number of requests.
        async with aclosing(api.pages(plural, filters=[some], select=select, size=page)) as pages:
            async for records in pages:
                for one in records:
                    yield one
