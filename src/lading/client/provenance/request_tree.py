"""The requests that belong together: those that a request made, by its container, and those that
it depends on or whose outputs it takes; and the same of each of them.

A request that has ended before its output is used is named by the content of that output alone. It
is found by the content: of several that had it, the one that was made last before its use, as a
pipeline that is run again makes a new request for each result that it reuses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.core.ids import EMPTY_PDH, Infix, infix_of, is_pdh, is_uuid

_MOST: Final = 2000
"""Requests of a tree."""
_DEEPEST: Final = 12
"""Steps from the first request."""
# The uuids of one filter; the address of a list call would become too long beyond some 1000.
_PAGE: Final = 500
_SELECT: Final = (
    "uuid", "name", "state", "priority", "command", "created_at", "container_uuid", "depends_on",
    "mounts", "requesting_container_uuid", "committed_by_uuid",
)  # fmt: skip
_OF_CONTAINER: Final = (
    "uuid", "state", "exit_code", "created_at", "started_at", "finished_at", "runtime_status",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTree:
    """Requests with their containers, the first one first; `is_cut`: there are more."""

    outcomes: tuple[RequestOutcome, ...]
    is_cut: bool
    inputs: dict[str, list[str]] = field(default_factory=dict)
    """The requests whose outputs a request reads by their content, by its uuid."""

    def needs_of(self, request: Record) -> tuple[str, ...]:
        """The uuids of all requests that a request needs."""
        return tuple(dict.fromkeys((*needed(request), *self.inputs.get(request["uuid"], ()))))


async def find_tree(
    api: ApiClient, uuid: str, *, most: int = _MOST, page: int = _PAGE, by_content: bool = False
) -> RequestTree:
    """The tree of a request, as far as the reader may see it: the first `most` requests, listed
    `page` at a time; `by_content`: with the requests whose outputs are read by content. Raises
    NotFound.
    """
    first = await api.get("container_requests", uuid, select=_SELECT)
    requests, ahead = {uuid: first}, [first]
    inputs: dict[str, list[str]] = {}
    for _ in range(_DEEPEST):
        read = await _readers(api, ahead, inputs, page=page) if by_content else {}
        ahead = await _next(api, ahead, requests, read, most=most, page=page)
        if not ahead or len(requests) > most:
            break
    listed = list(requests.values())[:most]
    containers = {
        container["uuid"]: container
        async for container in _listed(
            api,
            "containers",
            "uuid",
            (request["container_uuid"] for request in listed),
            _OF_CONTAINER,
            page,
        )
    }
    outcomes = (
        RequestOutcome(request, containers.get(request["container_uuid"] or ""))
        for request in listed
    )
    return RequestTree(outcomes=tuple(outcomes), is_cut=bool(ahead), inputs=inputs)


def needed(request: Record) -> Iterator[str]:
    """The uuids of requests that a request depends on, or whose outputs it takes."""
    mounted = [mount.get("container_request") for mount in (request["mounts"] or {}).values()]
    for reference in (*(request["depends_on"] or ()), *mounted):
        if (
            isinstance(reference, str)
            and is_uuid(reference)
            and infix_of(reference) == Infix.REQUEST
        ):
            yield reference


async def _next(
    api: ApiClient,
    ahead: list[Record],
    requests: dict[str, Record],
    read: dict[str, Record],
    *,
    most: int,
    page: int,
) -> list[Record]:
    """The requests one step further, the oldest first, which are added to `requests`; the
    search ends once it has more than `most`.
    """
    makers = [request["container_uuid"] for request in ahead]
    needed_uuids = [uuid for request in ahead for uuid in needed(request) if uuid not in requests]
    fresh = {uuid: request for uuid, request in read.items() if uuid not in requests}
    for column, values in (("requesting_container_uuid", makers), ("uuid", needed_uuids)):
        async with aclosing(
            _listed(api, "container_requests", column, values, _SELECT, page)
        ) as listed:
            async for row in listed:
                if row["uuid"] not in requests:
                    fresh[row["uuid"]] = row
                if len(requests) + len(fresh) > most:
                    break
    ordered = sorted(fresh.values(), key=lambda row: (row["created_at"], row["uuid"]))
    requests |= {row["uuid"]: row for row in ordered}
    return ordered


async def _readers(
    api: ApiClient, ahead: list[Record], inputs: dict[str, list[str]], *, page: int
) -> dict[str, Record]:
    """The requests whose outputs these requests read by content; `inputs` gets their uuids."""
    container_uuids = (request["container_uuid"] for request in ahead)
    fields = ("uuid", "mounts")
    mounts = {
        container["uuid"]: container["mounts"]
        async for container in _listed(api, "containers", "uuid", container_uuids, fields, page)
    }
    contents_read = {
        request["uuid"]: set(
            _contents(request["mounts"], mounts.get(request["container_uuid"]) or {})
        )
        for request in ahead
    }
    contents = sorted({pdh for some in contents_read.values() for pdh in some})[:page]
    if not contents:
        return {}
    containers = await api.list(
        "containers",
        filters=[["output", "in", contents], ["state", "=", "Complete"]],
        order=["created_at desc"],
        select=("uuid", "output"),
        limit=page,
    )
    outputs = {container["uuid"]: container["output"] for container in containers}
    if not outputs:
        return {}
    makers = await api.list(
        "container_requests",
        filters=[
            ["container_uuid", "in", list(outputs)],
            ["created_at", "<=", max(request["created_at"] for request in ahead)],
        ],
        order=["created_at desc", "uuid desc"],
        select=_SELECT,
        limit=page,
    )
    makers_read: dict[str, Record] = {}
    for request in ahead:
        for pdh in sorted(contents_read[request["uuid"]]):
            maker = _maker_of(
                request, [two for two in makers if outputs[two["container_uuid"]] == pdh]
            )
            if maker is not None:
                inputs.setdefault(request["uuid"], []).append(maker["uuid"])
                makers_read[maker["uuid"]] = maker
    return makers_read


def _contents(asked: Record, resolved: Record) -> Iterator[str]:
    """The contents that the mounts of a request name themselves; those that stand for the output of
    a request name that.
    """
    for target, mount in (asked or {}).items():
        pdh = (resolved.get(target) or mount).get("portable_data_hash")
        is_named = mount.get("kind") == "collection"
        if is_named and isinstance(pdh, str) and is_pdh(pdh) and pdh != EMPTY_PDH:
            yield pdh


def _maker_of(request: Record, makers: list[Record]) -> Record | None:
    """The last maker of a content before its use, if possible of the same user; `makers` has the
    newest first.
    """
    earlier = [maker for maker in makers if maker["created_at"] <= request["created_at"]]
    earlier = [maker for maker in earlier if maker["uuid"] != request["uuid"]]
    own = [maker for maker in earlier if maker["committed_by_uuid"] == request["committed_by_uuid"]]
    return next(iter(own or earlier), None)


async def _listed(
    api: ApiClient,
    plural: str,
    column: str,
    values: Iterable[str | None],
    select: Iterable[str],
    page: int,
) -> AsyncGenerator[Record]:
    distinct = list(dict.fromkeys(value for value in values if value))
    for start in range(0, len(distinct), page):
        some = [column, "in", distinct[start : start + page]]
        # A container may have made any number of requests.
        async with aclosing(api.pages(plural, filters=[some], select=select, size=page)) as pages:
            async for records in pages:
                for record in records:
                    yield record
