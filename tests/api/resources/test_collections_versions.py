"""Past versions: kept, found, listed when asked for, shared with whoever reads the collection,
never written.
"""

from __future__ import annotations

from pathlib import Path

from lading.core.records.schema import JSON, Record
from lading.testing.world import World, world


async def versions(it: World, record: Record, **params: JSON) -> list[Record]:
    filters = [["current_version_uuid", "=", record["uuid"]]]
    wanted = {"filters": filters, "order": "version", "include_old_versions": True, **params}
    found: list[Record] = (await it.ok("GET", "collections", params=wanted))["items"]
    return found


async def test_a_change_keeps_what_was_before(it: World) -> None:
    made = await it.collection({"a": b"x"}, name="n")
    it.clock.advance(20)
    live = await it.ok("PUT", f"collections/{made['uuid']}", {"manifest_text": "", "name": "m"})
    assert (live["uuid"], live["version"]) == (made["uuid"], 2)
    past, present = await versions(it, made)
    assert (past["version"], past["name"], past["portable_data_hash"]) == (
        1,
        "n",
        made["portable_data_hash"],
    )
    assert (past["modified_at"], past["current_version_uuid"]) == (
        made["modified_at"],
        made["uuid"],
    )
    assert present["uuid"] == made["uuid"]
    assert (await it.ok("GET", f"collections/{past['uuid']}"))["manifest_text"].startswith(". ")
    assert [one["uuid"] for one in await it.collections()] == [made["uuid"]]
    assert (await it.ok("GET", f"collections/{made['portable_data_hash']}"))["uuid"] == made[
        "portable_data_hash"
    ]


async def test_many_changes_in_a_row_keep_one(it: World) -> None:
    made = await it.collection({"a": b"x"})
    it.clock.advance(20)
    for name in ("m", "o"):
        await it.ok("PUT", f"collections/{made['uuid']}", {"name": name})
    assert [one["name"] for one in await versions(it, made)] == ["", "o"]
    await it.ok("PUT", f"collections/{made['uuid']}", {"preserve_version": True})
    last = await it.ok("PUT", f"collections/{made['uuid']}", {"name": "p"})
    assert (last["version"], last["preserve_version"]) == (3, False)
    assert [one["name"] for one in await versions(it, made)] == ["", "o", "p"]


async def test_past_versions_are_read_only(it: World) -> None:
    made = await it.collection({"a": b"x"})
    it.clock.advance(20)
    await it.ok("PUT", f"collections/{made['uuid']}", {"name": "m"})
    path = f"collections/{(await versions(it, made))[0]['uuid']}"
    for method, where in (
        ("PUT", path),
        ("DELETE", path),
        ("POST", f"{path}/trash"),
        ("POST", f"{path}/untrash"),
    ):
        reply = await it.request(method, where, {"name": "z"} if method == "PUT" else None)
        assert (reply.status, "past versions are read-only" in reply.error) == (422, True)


async def test_owner_and_trash_are_those_of_the_collection(it: World) -> None:
    made = await it.collection({"a": b"x"})
    it.clock.advance(20)
    await it.ok("PUT", f"collections/{made['uuid']}", {"name": "m"})
    group = await it.ok("POST", "groups", {"group_class": "project", "name": "p"})
    await it.ok("PUT", f"collections/{made['uuid']}", {"owner_uuid": group["uuid"]})
    assert {one["owner_uuid"] for one in await versions(it, made)} == {group["uuid"]}
    assert len((await it.ok("GET", f"groups/{group['uuid']}/contents"))["items"]) == 1
    contents = await it.ok(
        "GET", f"groups/{group['uuid']}/contents", params={"include_old_versions": True}
    )
    assert len(contents["items"]) == 2
    past = (await versions(it, made))[0]
    await it.ok("DELETE", f"collections/{made['uuid']}")
    assert await versions(it, made) == []
    assert (await it.request("GET", f"collections/{past['uuid']}")).status == 404
    assert {one["is_trashed"] for one in await versions(it, made, include_trash=True)} == {True}


async def test_whoever_reads_the_collection_reads_its_past(it: World) -> None:
    made, reader = await it.collection({"a": b"x"}), await it.user("u")
    it.clock.advance(20)
    await it.ok("PUT", f"collections/{made['uuid']}", {"name": "m"})
    path = f"collections/{(await versions(it, made))[0]['uuid']}"
    refused = await it.request("GET", path, token=reader)
    assert (refused.status, made["uuid"] in refused.error) == (404, False)
    user = (await it.ok("GET", "users/current", token=reader))["uuid"]
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": user,
        "head_uuid": made["uuid"],
    }
    await it.ok("POST", "links", link)
    assert (await it.ok("GET", path, token=reader))["version"] == 1


async def test_versions_can_be_switched_off(tmp_path: Path) -> None:
    settings = {"BlobSigningKey": "k" * 50, "CollectionVersioning": False}
    async with world(tmp_path, Collections=settings) as it:
        made = await it.collection({"a": b"x"}, preserve_version=True)
        it.clock.advance(20)
        assert (await it.ok("PUT", f"collections/{made['uuid']}", {"name": "m"}))["version"] == 1
        assert len(await versions(it, made)) == 1
