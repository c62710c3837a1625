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
    """The uuids of the requests that led to one, as far as the caller may read them, itself first.

    These are its tree, and those whose outputs it and they have read. Of several containers that
    have made a content, one stands for all: one of the tree, else the latest; and of several
    requests with a container the earliest. Raises NotFound, Conflict for more than `most`.
    """
    tree = await find_tree(api, uuid)
    too_many = Conflict(f"{uuid}: more requests led to it than can be listed; take parts of it")
    if tree.is_cut:
        raise too_many
    found = dict.fromkeys(str(one.request["uuid"]) for one in tree.outcomes)
    held = {str(one.request["container_uuid"] or "") for one in tree.outcomes}
    ahead = [one async for one in _listed(api, "containers", "uuid", sorted(held - {""}))]
    known = {str(one["output"]) for one in ahead if one["output"]}
    while ahead:
        ahead = await _makers_of_inputs(api, ahead, known, held)
        uuids = [str(one["uuid"]) for one in ahead]
        held.update(uuids)
        if len(held) > most:
            raise too_many
        found |= dict.fromkeys(await _requests(api, uuids))
    return list(found)


async def _makers_of_inputs(
    api: ApiClient, containers: Sequence[Record], known: set[str], held: Set[str]
) -> list[Record]:
    """The containers, of those not in `held`, that made what these have read.

    `known` are the contents whose makers were looked for; those of the inputs are added.
    """
    wanted = [one for one in dict.fromkeys(_inputs(containers)) if one not in known]
    known.update(wanted)
    return [one for one in await _makers(api, wanted) if one["uuid"] not in held]


async def _makers(api: ApiClient, contents: Sequence[str]) -> list[Record]:
    """The latest container that made each content."""
    latest: dict[str, Record] = {}
    async with aclosing(_listed(api, "containers", "output", contents)) as listed:
        async for one in listed:
            other = latest.get(one["output"])
            # API timestamps sort as texts.
            if other is None or one["created_at"] > other["created_at"]:
                latest[one["output"]] = one
    return list(latest.values())


async def _requests(api: ApiClient, containers: Sequence[str]) -> list[str]:
    """The earliest request of each container."""
    first: dict[str, Record] = {}
    async with aclosing(_listed(api, "container_requests", "container_uuid", containers)) as listed:
        async for one in listed:
            other = first.get(one["container_uuid"])
            if other is None or one["created_at"] < other["created_at"]:
                first[one["container_uuid"]] = one
    return [str(one["uuid"]) for one in first.values()]


async def _listed(
    api: ApiClient, plural: str, field: str, values: Sequence[str]
) -> AsyncGenerator[Record]:
    select = _OF_CONTAINER if plural == "containers" else _OF_REQUEST
    for start in range(0, len(values), _PAGE):
        filters = [[field, "in", list(values[start : start + _PAGE])]]
        async with aclosing(api.pages(plural, filters=filters, select=select)) as pages:
            async for rows in pages:
                for one in rows:
                    yield one


def _inputs(containers: Iterable[Record]) -> Iterator[str]:
    for one in containers:
        mounted: list[Any] = [
            mount.get("portable_data_hash") for mount in (one["mounts"] or {}).values()
        ]
        for pdh in (one["container_image"], *mounted):
            # Any command may leave nothing: the empty output says nothing of where it is from.
            if isinstance(pdh, str) and is_pdh(pdh) and pdh != EMPTY_PDH:
                yield pdh
