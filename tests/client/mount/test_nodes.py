from __future__ import annotations

import pytest

from lading.client.api import ApiClient
from lading.client.mount.nodes import (
    RECORD_NAME,
    Listed,
    MountedCollections,
    Node,
    Text,
    Unknown,
    seconds,
)
from lading.client.retry import NO_RETRY
from lading.core.data.filetree import File
from lading.core.errors import NotFound, Unavailable
from lading.testing.asgi import AsgiTransport, FlakyTransport
from tests.client.mount.conftest import Scene

EMPTY: dict[str, Node] = {}


async def test_a_listing_holds_for_its_time_and_until_it_is_expired() -> None:
    now, calls = 0.0, 0

    async def load() -> dict[str, Node]:
        nonlocal calls
        calls += 1
        return {f"name {calls}": Text(b"")}

    listed = Listed(load, lambda: now)
    assert await listed.list() is await listed.list()
    now = 16.0
    with pytest.raises(Unknown):
        listed.peek("name 1")
    assert await listed.find("name 2") is not None
    listed.freshness.expire()
    assert set(await listed.list()) == {"name 3"}


async def test_an_answer_from_before_a_change_does_not_hold() -> None:
    content = ["before"]

    async def load() -> dict[str, Node]:
        answer: dict[str, Node] = {name: Text(b"") for name in content}
        if content == ["before"]:
            # The change comes while the answer is on its way.
            content[:] = ["after"]
            listed.freshness.expire()
        return answer

    listed = Listed(load, lambda: 0.0)
    assert set(await listed.list()) == {"before"}
    assert set(await listed.list()) == {"after"}


async def test_a_failure_is_remembered_for_a_moment() -> None:
    now, calls = 0.0, 0

    async def load() -> dict[str, Node]:
        nonlocal calls
        calls += 1
        raise Unavailable(f"call {calls}")

    listed = Listed(load, lambda: now)
    for _ in range(2):
        with pytest.raises(Unavailable, match="call 1"):
            await listed.list()
    now = 10.0
    with pytest.raises(Unavailable, match="call 2"):
        await listed.list()


async def test_a_collection_is_loaded_anew_when_its_content_changed(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"first"}, name="one")
    collection = scene.layout.collections.collection(uuid)
    before = await collection.find("a.txt")
    assert isinstance(before, File)
    collection.freshness.expire()
    assert await collection.find("a.txt") is before
    await scene.world.ok(
        "PUT", f"collections/{uuid}", {"manifest_text": scene.world.manifest({"b.txt": b"x"})}
    )
    assert collection.peek("a.txt") is before
    scene.layout.collections.expire(uuid)
    assert set(await collection.list()) == {"b.txt"}


async def test_the_record_of_a_collection_is_a_file(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"first"}, name="one")
    text = await scene.layout.collections.collection(uuid).find(RECORD_NAME)
    assert isinstance(text, Text)
    assert f'"uuid": "{uuid}"'.encode() in text.content


async def test_a_portable_data_hash_is_never_asked_about_again(scene: Scene) -> None:
    record = await scene.world.collection({"a.txt": b"first"})
    collection = scene.layout.collections.collection(record["portable_data_hash"])
    await collection.ensure()
    scene.now = 1e9
    scene.layout.collections.expire()
    assert collection.peek("a.txt") is not None


async def test_a_locator_gets_a_new_signature(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"first"})
    collection = scene.layout.collections.collection(uuid)
    file = await collection.find("a.txt")
    assert isinstance(file, File)
    scene.world.clock.advance(3600)
    fresh = await collection.renew(file.segments[0].locator)
    assert fresh[:32] == file.segments[0].locator[:32]
    assert fresh != file.segments[0].locator
    with pytest.raises(NotFound, match="does not have this block any more"):
        await collection.renew(f"{'0' * 32}+3")


async def test_large_trees_that_were_not_used_for_long_are_let_go(
    scene: Scene,
) -> None:
    client = ApiClient(AsgiTransport(scene.world.app), scene.world.admin)
    layout = MountedCollections(client, most_text=100)
    uuids = [await scene.collection({f"{'x' * 60}{number}": b"x"}) for number in range(3)]
    collections = [layout.collection(uuid) for uuid in uuids]
    for one in collections:
        await one.ensure()
    assert [one.freshness.is_fresh for one in collections] == [False, False, True]
    assert await collections[0].list()


async def test_a_collection_that_cannot_be_asked_about(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"first"})
    transport = FlakyTransport(AsgiTransport(scene.world.app), seed=0, loss=1.0)
    collection = MountedCollections(
        ApiClient(transport, scene.world.admin, retry=NO_RETRY)
    ).collection(uuid)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await collection.ensure()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500000000Z", 1.5),
        ("1970-01-01T00:01:00Z", 60.0),
        (None, 0.0),
        ("", 0.0),
    ],
)
def test_timestamps(text: str | None, expected: float) -> None:
    assert seconds(text) == expected
