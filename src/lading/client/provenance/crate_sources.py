"""Sources of crates and bags: requests with their containers, manifests and files. Records are read
in pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_files
from lading.client.provenance.crate_writing import CrateWriter
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.errors import Conflict, LadingError
from lading.core.provenance.run_crate import CrateFile, CrateStep, user_of

_PAGE: Final = 100
_MANIFESTS: Final = 50
"""Manifests of one call."""
_CALLS: Final = 8
"""Calls at a time."""


async def ended_in_order(api: ApiClient, uuids: Sequence[str]) -> list[str]:
    """The requests, the earliest first. Raises Conflict for one that has not ended."""
    fields = ("uuid", "created_at", "state", "container_uuid")
    rows = await rows_by_field(api, "container_requests", "uuid", uuids, fields)
    for one in rows:
        if one["state"] != "Final" or not one["container_uuid"]:
            raise Conflict(f"{one['uuid']}: has not run to its end; wait for it or cancel it first")
    return [one["uuid"] for one in sorted(rows, key=lambda one: (one["created_at"], one["uuid"]))]


async def read_steps(api: ApiClient, uuids: Sequence[str]) -> AsyncGenerator[list[CrateStep]]:
    names: dict[str, str] = {}
    for start in range(0, len(uuids), _PAGE):
        some = uuids[start : start + _PAGE]
        rows = await rows_by_field(api, "container_requests", "uuid", some)
        requests = {one["uuid"]: one for one in rows}
        held = [str(one["container_uuid"]) for one in rows]
        containers = {
            one["uuid"]: one for one in await rows_by_field(api, "containers", "uuid", held)
        }
        people = {user_of(one) for one in requests.values()} - names.keys()
        for one in await rows_by_field(api, "users", "uuid", sorted(people)):
            names[one["uuid"]] = str(one.get("full_name") or one.get("username") or "")
        evidence = await _evidence(api, containers.values())
        made = []
        for uuid in some:
            request = requests[uuid]
            container = containers.get(request["container_uuid"])
            if container is None:
                raise Conflict(f"{uuid}: its container is gone, or you may not read it")
            told = evidence.get(container["uuid"])
            agent = names.get(user_of(request), "")
            made.append(CrateStep(request=request, container=container, agent=agent, evidence=told))
        yield made


async def _evidence(api: ApiClient, containers: Iterable[Record]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    gate = asyncio.Semaphore(_CALLS)

    async def ask(uuid: str) -> None:
        async with gate:
            found[uuid] = await api.action("containers", uuid, "evidence", method="GET")

    async with asyncio.TaskGroup() as group:
        for one in containers:
            group.create_task(ask(one["uuid"]))
    return found


async def write_tree(
    blocks: BlockClient, writer: CrateWriter, place: str, tree: FileTree
) -> list[CrateFile]:
    """Write the files of a tree below a path; what was written."""
    named = list(filetree.files(tree))
    made = []
    async with aclosing(read_files(blocks, [file for _, file in named])) as pieces:
        ahead = await anext(pieces, None)
        for number, (name, _) in enumerate(named):
            with writer.writing(f"{place}/{name}") as file:
                while ahead is not None and ahead[0] == number:
                    file.add(ahead[1])
                    ahead = await anext(pieces, None)
            made.append(file.made())
    return made


async def read_tree(api: ApiClient, pdh: str) -> FileTree:
    """The files of a content. Raises Conflict if it is gone or may not be read."""
    async with aclosing(signed_manifests(api, [pdh])) as found:
        return filetree.from_manifest((await anext(found))[1])


async def signed_manifests(
    api: ApiClient, hashes: Sequence[str]
) -> AsyncGenerator[tuple[str, str]]:
    """The signed manifests of contents. Raises Conflict for one that is gone or may not be read."""
    for start in range(0, len(hashes), _MANIFESTS):
        some = hashes[start : start + _MANIFESTS]
        rows = await api.list(
            "collections",
            filters=[["portable_data_hash", "in", list(some)]],
            select=["portable_data_hash", "manifest_text"],
            distinct=True,
            limit=len(some),
        )
        found = {one["portable_data_hash"]: one["manifest_text"] for one in rows}
        for pdh in some:
            if pdh in found:
                yield pdh, found[pdh]
                continue
            try:
                yield pdh, str((await api.get("collections", pdh))["manifest_text"])
            except LadingError as error:
                raise Conflict(f"{pdh}: cannot be exported: {error.message}") from error


async def rows_by_field(
    api: ApiClient,
    plural: str,
    field_name: str,
    values: Sequence[str],
    select: Sequence[str] = (),
) -> list[Record]:
    found: list[Record] = []
    for start in range(0, len(values), _PAGE):
        filters = [[field_name, "in", list(values[start : start + _PAGE])]]
        async with aclosing(api.pages(plural, filters=filters, select=select)) as pages:
            async for rows in pages:
                found += rows
    return found
