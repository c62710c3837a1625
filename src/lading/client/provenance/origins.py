"""All requests that led to a result: by what they were told to need, and by what they read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence, Set
from contextlib import aclosing
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.provenance.request_tree import find_tree
from lading.core.errors import Conflict
from lading.core.ids import EMPTY_PDH, is_pdh

_MOST: Final = 20_000
"""Containers that are followed."""
_PAGE: Final = 100
_OF_CONTAINER: Final = ("uuid", "output", "created_at", "mounts", "container_image")
_OF_REQUEST: Final = ("uuid", "container_uuid", "created_at")


async def find_origins(api: ApiClient, uuid: str, *, most: int = _MOST) -> list[str]:
    """The uuids of the requests that led to a request, as far as the caller may read them, itself
    first.

    These are its tree, and the requests whose outputs the tree has read. Of several containers that
    have made a content, one stands for all: one of the tree, else the latest; and of several
    requests with a container the earliest. Raises NotFound, Conflict for more than `most`.
    """
    tree = await find_tree(api, uuid)
    too_many = Conflict(f"{uuid}: more requests led to it than can be listed; take parts of it")
    if tree.is_cut:
        raise too_many
    origins = dict.fromkeys(str(outcome.request["uuid"]) for outcome in tree.outcomes)
    visited = {str(outcome.request["container_uuid"] or "") for outcome in tree.outcomes}
    ahead = [
        container async for container in _listed(api, "containers", "uuid", sorted(visited - {""}))
    ]
    contents = {str(container["output"]) for container in ahead if container["output"]}
    while ahead:
        ahead = await _makers_of_inputs(api, ahead, contents, visited)
        uuids = [str(container["uuid"]) for container in ahead]
        visited.update(uuids)
        if len(visited) > most:
            raise too_many
        origins |= dict.fromkeys(await _requests(api, uuids))
    return list(origins)


async def _makers_of_inputs(
    api: ApiClient, containers: Sequence[Record], contents: set[str], visited: Set[str]
) -> list[Record]:
    """The containers outside `visited` that made the inputs of `containers`.

    `contents`: the contents whose makers were looked for; the inputs are added.
    """
    new_contents = [pdh for pdh in dict.fromkeys(_inputs(containers)) if pdh not in contents]
    contents.update(new_contents)
    return [
        container
        for container in await _makers(api, new_contents)
        if container["uuid"] not in visited
    ]


async def _makers(api: ApiClient, contents: Sequence[str]) -> list[Record]:
    """The latest container that made each content."""
    latest: dict[str, Record] = {}
    async with aclosing(_listed(api, "containers", "output", contents)) as listed:
        async for container in listed:
            rival = latest.get(container["output"])
            # API timestamps sort as texts.
            if rival is None or container["created_at"] > rival["created_at"]:
                latest[container["output"]] = container
    return list(latest.values())


async def _requests(api: ApiClient, containers: Sequence[str]) -> list[str]:
    """The earliest request of each container."""
    first: dict[str, Record] = {}
    async with aclosing(_listed(api, "container_requests", "container_uuid", containers)) as listed:
        async for request in listed:
            rival = first.get(request["container_uuid"])
            if rival is None or request["created_at"] < rival["created_at"]:
                first[request["container_uuid"]] = request
    return [str(request["uuid"]) for request in first.values()]


async def _listed(
    api: ApiClient, plural: str, field: str, values: Sequence[str]
) -> AsyncGenerator[Record]:
    select = _OF_CONTAINER if plural == "containers" else _OF_REQUEST
    for start in range(0, len(values), _PAGE):
        filters = [[field, "in", list(values[start : start + _PAGE])]]
        async with aclosing(api.pages(plural, filters=filters, select=select)) as pages:
            async for rows in pages:
                for row in rows:
                    yield row


def _inputs(containers: Iterable[Record]) -> Iterator[str]:
    for container in containers:
        mounted: list[Any] = [
            mount.get("portable_data_hash") for mount in (container["mounts"] or {}).values()
        ]
        for pdh in (container["container_image"], *mounted):
            # Any command may leave nothing: the empty output says nothing of where it is from.
            if isinstance(pdh, str) and is_pdh(pdh) and pdh != EMPTY_PDH:
                yield pdh
