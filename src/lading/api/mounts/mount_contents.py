"""Contents of the files and directories that mounts show, found before a request's transaction.

A transaction waits for nothing but the database, so these contents are looked up before it, and
remembered by the portable data hash of the collection and the path. A content that is not found in
time is compared by collection and path instead: then equal work may be computed again.

Source: docs/spec/containers, section Reuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from lading.api.container_assignment import outputs_of
from lading.api.mounts.tree_cache import CONTENTS, TREES
from lading.api.services import ApiServices
from lading.core.containers.mounting import mount_resolution
from lading.core.data import content, filetree
from lading.core.data.filetree import File, FileTree, bare
from lading.core.errors import LadingError
from lading.core.records.access import Principal
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import JSON
from lading.store import contents, records
from lading.store.database import Transaction

# Characters of the largest manifest that is looked into: that takes some tenths of a second.
_LARGEST: Final = 4 << 20


async def look_up(services: ApiServices, principal: Principal, several: Iterable[JSON]) -> None:
    """Find and remember what these mounts of requests show, within Containers.ResolveTimeout.

    The mounts need not be valid. Only collections that the principal can read are looked into.
    """
    mount_sets = [mounts for mounts in several if isinstance(mounts, dict) and _shows_path(mounts)]
    if not mount_sets:
        return
    entries = services.features[CONTENTS].entries
    # A failure here costs a reuse, not the request.
    with suppress(LadingError, TimeoutError):
        async with asyncio.timeout(services.config.Containers.ResolveTimeout):
            async with services.database.reading() as tx:
                shown = await _shown(tx, mount_sets)
                reader = None if principal.is_admin else principal.user_uuid
                hashes = dict.fromkeys(pdh for pdh, _ in shown)
                readable = await contents.present(tx, hashes, services.clock.now(), reader=reader)
            if all(key in entries for key in shown):
                return
            async with services.features[CONTENTS].lock:
                for pdh in hashes:
                    if pdh not in readable:
                        continue
                    paths = [path for content_hash, path in shown if content_hash == pdh]
                    await _learn(services, pdh, paths)


def _shows_path(mounts: Mapping[str, JSON]) -> bool:
    """Whether a mount may show less than a whole collection."""
    return any(
        isinstance(mount, dict)
        and (mount.get("path") or "/" in str(mount.get("portable_data_hash")))
        for mount in mounts.values()
    )


async def _shown(tx: Transaction, several: list[dict[str, JSON]]) -> list[tuple[str, str]]:
    """The collections and paths that the mounts show."""
    named = [reference for mounts in several for reference in mount_resolution.references(mounts)]
    uuids = dict.fromkeys(reference.name for reference in named if not reference.is_pdh)
    hashes: dict[str, str | None] = {
        reference.name: reference.name for reference in named if reference.is_pdh
    }
    for row in await records.among(tx, COLLECTIONS, "uuid", uuids):
        hashes[row["uuid"]] = row["portable_data_hash"]
    sources = [
        output.request_uuid for mounts in several for output in mount_resolution.outputs(mounts)
    ]
    hashes |= await outputs_of(tx, dict.fromkeys(sources))
    return list(
        dict.fromkeys(
            key for mounts in several for key in mount_resolution.shown(mounts, hashes).values()
        )
    )


async def _learn(services: ApiServices, pdh: str, paths: list[str]) -> None:
    entries = services.features[CONTENTS].entries
    if all((pdh, path) in entries for path in paths):
        return
    async with services.database.reading() as tx:
        collections, _ = await contents.for_keeping(tx, [pdh], ())
    manifest_text = collections[pdh][0] if pdh in collections else ""
    if not manifest_text or len(manifest_text) > _LARGEST:
        return
    tree = await asyncio.to_thread(services.features[TREES].read, manifest_text)
    for path in paths:
        # The files in one block are learned together.
        if (pdh, path) not in entries:
            await _learn_one(services, pdh, tree, path)


async def _learn_one(services: ApiServices, pdh: str, tree: FileTree, path: str) -> None:
    entries, node = services.features[CONTENTS].entries, filetree.find(tree, path)
    if isinstance(node, FileTree):
        entries.put((pdh, path), await asyncio.to_thread(content.of_directory, node))
    elif node is not None and content.needs_bytes(node):
        await _read(services, pdh, tree, path, node)
    elif node is not None:
        entries.put((pdh, path), await asyncio.to_thread(content.of_file, node))


async def _read(services: ApiServices, pdh: str, tree: FileTree, path: str, file: File) -> None:
    """Learn the content of a file from its bytes, and of the files in the same block."""
    entries = services.features[CONTENTS].entries
    if len(file.segments) > 1:
        parts = [
            (await services.blocks.get(segment.locator))[
                segment.offset : segment.offset + segment.length
            ]
            for segment in file.segments
        ]
        entries.put((pdh, path), await asyncio.to_thread(content.of_bytes, b"".join(parts)))
        return
    locator = file.segments[0].locator
    data = await services.blocks.get(locator)
    described = await asyncio.to_thread(content.in_block, tree, bare(locator), data)
    # The wanted one last: it is the last to be forgotten.
    for learned_path in [*(neighbour for neighbour in described if neighbour != path), path]:
        entries.put((pdh, learned_path), described[learned_path])
