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
    given = [one for one in several if isinstance(one, dict) and _shows_path(one)]
    if not given:
        return
    known = services.features[CONTENTS].known
    # A failure here costs a reuse, not the request.
    with suppress(LadingError, TimeoutError):
        async with asyncio.timeout(services.config.Containers.ResolveTimeout):
            async with services.database.reading() as tx:
                found = await _shown(tx, given)
                reader = None if principal.is_admin else principal.user_uuid
                hashes = dict.fromkeys(pdh for pdh, _ in found)
                readable = await contents.present(tx, hashes, services.clock.now(), reader=reader)
            if all(one in known for one in found):
                return
            async with services.features[CONTENTS].lock:
                for pdh in hashes:
                    if pdh not in readable:
                        continue
                    paths = [path for one, path in found if one == pdh]
                    await _learn(services, pdh, paths)


def _shows_path(given: Mapping[str, JSON]) -> bool:
    """Whether a mount may show less than a whole collection."""
    return any(
        isinstance(one, dict) and (one.get("path") or "/" in str(one.get("portable_data_hash")))
        for one in given.values()
    )


async def _shown(tx: Transaction, several: list[dict[str, JSON]]) -> list[tuple[str, str]]:
    """The collections and paths that the mounts show."""
    named = [one for given in several for one in mount_resolution.references(given)]
    uuids = dict.fromkeys(one.name for one in named if not one.is_pdh)
    hashes: dict[str, str | None] = {one.name: one.name for one in named if one.is_pdh}
    for row in await records.among(tx, COLLECTIONS, "uuid", uuids):
        hashes[row["uuid"]] = row["portable_data_hash"]
    sources = [one.request_uuid for given in several for one in mount_resolution.outputs(given)]
    hashes |= await outputs_of(tx, dict.fromkeys(sources))
    return list(
        dict.fromkeys(
            one for given in several for one in mount_resolution.shown(given, hashes).values()
        )
    )


async def _learn(services: ApiServices, pdh: str, paths: list[str]) -> None:
    known = services.features[CONTENTS].known
    if all((pdh, path) in known for path in paths):
        return
    async with services.database.reading() as tx:
        held, _ = await contents.for_keeping(tx, [pdh], ())
    text = held[pdh][0] if pdh in held else ""
    if not text or len(text) > _LARGEST:
        return
    tree = await asyncio.to_thread(services.features[TREES].read, text)
    for path in paths:
        # The files in one block are learned together.
        if (pdh, path) not in known:
            await _learn_one(services, pdh, tree, path)


async def _learn_one(services: ApiServices, pdh: str, tree: FileTree, path: str) -> None:
    known, node = services.features[CONTENTS].known, filetree.find(tree, path)
    if isinstance(node, FileTree):
        known.put((pdh, path), await asyncio.to_thread(content.of_directory, node))
    elif node is not None and content.needs_bytes(node):
        await _read(services, pdh, tree, path, node)
    elif node is not None:
        known.put((pdh, path), await asyncio.to_thread(content.of_file, node))


async def _read(services: ApiServices, pdh: str, tree: FileTree, path: str, file: File) -> None:
    """Learn the content of a file from its bytes, and of the files in the same block."""
    known = services.features[CONTENTS].known
    if len(file.segments) > 1:
        parts = [
            (await services.blocks.get(one.locator))[one.offset : one.offset + one.length]
            for one in file.segments
        ]
        known.put((pdh, path), await asyncio.to_thread(content.of_bytes, b"".join(parts)))
        return
    locator = file.segments[0].locator
    data = await services.blocks.get(locator)
    found = await asyncio.to_thread(content.in_block, tree, bare(locator), data)
    # The wanted one last: it is the last to be forgotten.
    for other in [*(one for one in found if one != path), path]:
        known.put((pdh, other), found[other])
