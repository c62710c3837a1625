from __future__ import annotations

import asyncio

import pytest

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Conflict, Forbidden
from lading.fileserving.changes import ConcurrentChanges, Edit
from lading.fileserving.collection_cache import CachedCollection, CollectionCache
from tests.webdav.site import Site

EMPTY = filetree.to_manifest(FileTree({"file": File()}))


def changes(here: Site) -> ConcurrentChanges:
    return ConcurrentChanges(CollectionCache(here.transport, anonymous=""))


async def add(here: Site, uuid: str, name: str) -> None:
    """Add an empty file; each writer has its own cache and its own line, as in two servers."""

    def plan(_: CachedCollection) -> Edit:
        return Edit({f"/{name}": "manifest_text/file"}, 201)

    await changes(here).apply(uuid, here.world.admin, plan, uploaded=EMPTY)


async def test_writers_at_the_same_time_lose_nothing(here: Site) -> None:
    uuid = await here.collection({})
    await asyncio.gather(*(add(here, uuid, name) for name in "abcd"))
    assert await here.tree(uuid) == ["a", "b", "c", "d"]


async def test_an_endless_race_is_a_conflict(here: Site) -> None:
    uuid = await here.collection({})
    one = changes(here)

    def plan(present: CachedCollection) -> Edit:
        object.__setattr__(present, "etag", "of another time")
        return Edit({"/a": "manifest_text/file"}, 201)

    with pytest.raises(Conflict, match="too many concurrent changes"):
        await one.apply(uuid, here.world.admin, plan, uploaded=EMPTY)
    assert await here.tree(uuid) == []


async def test_a_content_never_changes(here: Site) -> None:
    uuid = await here.collection({"a": b"x"})
    with pytest.raises(Forbidden, match="is a content, which never changes"):
        await changes(here).open(await here.pdh(uuid), here.world.admin)
