"""Fetched objects as collections of the system user."""

from __future__ import annotations

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.core import ids
from lading.core.records.schema import Record
from lading.tes.transfers.input_store import InputStore
from lading.testing.asgi import AsgiTransport
from tests.tes.site import TaskWorld, WithBlocks

DAY = 86400.0


def store(it: TaskWorld) -> InputStore:
    return InputStore(
        api=ApiClient(AsgiTransport(it.world.app), it.world.config.SystemRootToken),
        system_user=ids.system_user(it.world.cluster),
        lifetime=10 * DAY,
        clock=it.world.clock,
    )


async def save(it: TaskWorld, key: str, user: str) -> str:
    token = it.world.config.SystemRootToken
    blocks = BlockClient(AsgiTransport(WithBlocks(it.world)), token, trusting=True)
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("a", b"content")
        return await store(it).save(key, "http://h/a", writer, user)


async def kept(it: TaskWorld) -> list[Record]:
    return await it.world.collections(filters=[["name", "=", "input key"]])


async def test_an_object_is_kept_while_it_is_used(it: TaskWorld) -> None:
    ann = (await it.world.ok("GET", "users/current", token=await it.world.user("ann")))["uuid"]
    assert await store(it).find("key", ann) is None
    hash = await save(it, "key", ann)
    first = (await kept(it))[0]["trash_at"]
    assert await store(it).find("key", ann) == hash
    assert (await kept(it))[0]["trash_at"] == first
    it.world.clock.advance(6 * DAY)
    assert await store(it).find("key", ann) == hash
    assert (await kept(it))[0]["trash_at"] > first
    links = await it.world.ok("GET", "links", params={"filters": [["tail_uuid", "=", ann]]})
    assert len([one for one in links["items"] if one["name"] == "can_read"]) <= 2


async def test_two_that_bring_the_same_object(it: TaskWorld) -> None:
    system = ids.system_user(it.world.cluster)
    assert await save(it, "key", system) == await save(it, "key", system)
    assert len(await kept(it)) == 1


async def test_users_cannot_bring_objects_for_others(it: TaskWorld) -> None:
    await it.world.collection({"a": b"bad"}, name="input key")
    assert await store(it).find("key", ids.system_user(it.world.cluster)) is None
