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
    """The requests, the earliest first. Raises Conflict for a request that has not ended."""
    fields = ("uuid", "created_at", "state", "container_uuid")
    rows = await rows_by_field(api, "container_requests", "uuid", uuids, fields)
    for row in rows:
        if row["state"] != "Final" or not row["container_uuid"]:
            raise Conflict(f"{row['uuid']}: has not run to its end; wait for it or cancel it first")
    return [row["uuid"] for row in sorted(rows, key=lambda row: (row["created_at"], row["uuid"]))]


async def read_steps(api: ApiClient, uuids: Sequence[str]) -> AsyncGenerator[list[CrateStep]]:
    names: dict[str, str] = {}
    for start in range(0, len(uuids), _PAGE):
        some = uuids[start : start + _PAGE]
        rows = await rows_by_field(api, "container_requests", "uuid", some)
        requests = {row["uuid"]: row for row in rows}
        container_uuids = [str(row["container_uuid"]) for row in rows]
        containers = {
            container["uuid"]: container
            for container in await rows_by_field(api, "containers", "uuid", container_uuids)
        }
        people = {user_of(request) for request in requests.values()} - names.keys()
        for user in await rows_by_field(api, "users", "uuid", sorted(people)):
            names[user["uuid"]] = str(user.get("full_name") or user.get("username") or "")
        evidence = await _evidence(api, containers.values())
        steps = []
        for uuid in some:
            request = requests[uuid]
            container = containers.get(request["container_uuid"])
            if container is None:
                raise Conflict(f"{uuid}: its container is gone, or you may not read it")
            container_evidence = evidence.get(container["uuid"])
            agent = names.get(user_of(request), "")
            steps.append(
                CrateStep(
                    request=request, container=container, agent=agent, evidence=container_evidence
                )
            )
        yield steps


async def _evidence(api: ApiClient, containers: Iterable[Record]) -> dict[str, Record]:
    evidence: dict[str, Record] = {}
    gate = asyncio.Semaphore(_CALLS)

    async def ask(uuid: str) -> None:
        async with gate:
            evidence[uuid] = await api.action("containers", uuid, "evidence", method="GET")

    async with asyncio.TaskGroup() as group:
        for container in containers:
            group.create_task(ask(container["uuid"]))
    return evidence


async def write_tree(
    blocks: BlockClient, writer: CrateWriter, directory: str, tree: FileTree
) -> list[CrateFile]:
    """Write the files of a tree below a directory of the crate; return the written files."""
    named = list(filetree.files(tree))
    files = []
    async with aclosing(read_files(blocks, [file for _, file in named])) as pieces:
        ahead = await anext(pieces, None)
        for number, (name, _) in enumerate(named):
            with writer.writing(f"{directory}/{name}") as file:
                while ahead is not None and ahead[0] == number:
                    file.add(ahead[1])
                    ahead = await anext(pieces, None)
            files.append(file.made())
    return files


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
        manifests = {row["portable_data_hash"]: row["manifest_text"] for row in rows}
        for pdh in some:
            if pdh in manifests:
                yield pdh, manifests[pdh]
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
    listed: list[Record] = []
    for start in range(0, len(values), _PAGE):
        filters = [[field_name, "in", list(values[start : start + _PAGE])]]
        async with aclosing(api.pages(plural, filters=filters, select=select)) as pages:
            async for rows in pages:
                listed += rows
    return listed
