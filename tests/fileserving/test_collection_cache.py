from __future__ import annotations

from datetime import datetime

import pytest

from lading.core.data.filetree import File, FileTree, Segment
from lading.core.errors import NotFound, Unauthenticated
from lading.fileserving.collection_cache import CollectionCache, tag_of
from tests.webdav.site import Site


async def test_a_collection_and_a_content(here: Site) -> None:
    uuid = await here.collection({"f": b"x"}, name="n")
    library = CollectionCache(here.transport, anonymous="")
    shelf = await library.open(uuid, here.world.admin)
    assert (shelf.uuid, shelf.name, shelf.editable, list(shelf.tree.entries)) == (
        uuid,
        "n",
        True,
        ["f"],
    )
    assert isinstance(shelf.modified, datetime)
    content = await library.open(shelf.pdh, here.world.admin)
    assert (content.uuid, content.modified, content.editable) == (shelf.pdh, None, False)
    with pytest.raises(NotFound):
        await library.open("zzzzz-4zz18-000000000000009", here.world.admin)


async def test_trees_are_kept_for_a_while(here: Site) -> None:
    uuid, now = await here.collection({"f": b"x"}), [0.0]
    library = CollectionCache(here.transport, anonymous="", clock=lambda: now[0])
    first = (await library.open(uuid, here.world.admin)).tree
    assert (await library.open(uuid, here.world.admin)).tree is first
    now[0] = 301
    assert (await library.open(uuid, here.world.admin)).tree is not first


async def test_the_oldest_tree_is_dropped_when_texts_are_too_large(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    library = CollectionCache(here.transport, anonymous="", limit=1, large=1)
    first = (await library.open(uuid, here.world.admin)).tree
    assert (await library.open(uuid, here.world.admin)).tree is first
    await library.open(await here.collection({"g": b"x"}), here.world.admin)
    assert (await library.open(uuid, here.world.admin)).tree is not first


async def test_permissions_are_asked_for_each_time(here: Site) -> None:
    uuid = await here.collection({"f": b"x"})
    library = CollectionCache(here.transport, anonymous="")
    await library.open(uuid, here.world.admin)
    with pytest.raises(NotFound):
        await library.open(uuid, await here.world.user("u"))
    await here.world.ok("DELETE", f"collections/{uuid}")
    with pytest.raises(NotFound):
        await library.open(uuid, here.world.admin)


async def test_somebody_or_nobody(here: Site) -> None:
    assert CollectionCache(here.transport, anonymous="n").token("") == "n"
    assert CollectionCache(here.transport, anonymous="n").token("t") == "t"
    with pytest.raises(Unauthenticated):
        CollectionCache(here.transport, anonymous="").token("")


def test_tags_are_of_the_blocks() -> None:
    block = f"{'a' * 32}+5"
    assert tag_of(File((Segment(block, 0, 3),))) == tag_of(File((Segment(f"{block}+Ax@1", 0, 3),)))
    assert tag_of(File((Segment(block, 0, 3),))) != tag_of(File((Segment(block, 1, 3),)))
    assert tag_of(FileTree()) == ""
