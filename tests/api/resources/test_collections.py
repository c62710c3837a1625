"""Collections: content, signatures, names, trash."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lading.api import manifests
from lading.core.quantities import format_time
from lading.core.records.schema import JSON, Record
from lading.testing.world import START, World, world

EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"


async def test_content_is_hashed_and_signed(it: World) -> None:
    made = await it.collection({"a": b"x", "b": b"yy"}, name="n")
    assert "+A" in made["manifest_text"]
    assert "+A" not in made["unsigned_manifest_text"]
    assert (made["file_count"], made["file_size_total"], made["version"]) == (2, 3, 1)
    assert made["current_version_uuid"] == made["uuid"]
    got = await it.ok(
        "GET", f"collections/{made['uuid']}", params={"select": ["name", "portable_data_hash"]}
    )
    assert got.keys() == {"name", "portable_data_hash", "kind", "etag"}


async def test_get_by_content(it: World) -> None:
    made = await it.collection({"a": b"x"}, trash_at="2026-05-01")
    pdh = made["portable_data_hash"]
    for name in (pdh, f"{pdh}+A{'0' * 40}@{'0' * 8}", f"{pdh}+Zhint"):
        found = await it.ok("GET", f"collections/{name}")
        assert (found["uuid"], found["trash_at"][:10]) == (pdh, "2026-05-01")
    await it.collection({"a": b"x"})
    assert "trash_at" not in await it.ok("GET", f"collections/{pdh}")
    assert (await it.ok("GET", f"collections/{pdh}", params={"select": ["uuid"]})).keys() == {
        "uuid"
    }
    for wrong in (f"{'0' * 32}+5", "nonsense", f"{pdh}x"):
        assert (await it.request("GET", f"collections/{wrong}")).status == 404
    assert (await it.request("GET", f"collections/{pdh}", token=await it.user("u"))).status == 404


async def test_users_prove_that_they_could_read_the_blocks(it: World) -> None:
    token = await it.user("u")
    await it.collection({"a": b"x"}, token=token)
    block = it.blocks.put(b"x")
    late = it.signed(block, token, expiry=START - timedelta(days=1))
    for one in (block, f"{block}+A{'0' * 40}@{'f' * 8}", late, it.signed(block, it.admin)):
        reply = await it.request(
            "POST", "collections", {"manifest_text": f". {one} 0:1:a\n"}, token=token
        )
        assert (reply.status, "manifest_text" in reply.error) == (403, True)
    empty = {"manifest_text": f". {EMPTY} 0:0:a\n"}
    assert (await it.request("POST", "collections", empty, token=token)).status == 200
    assert (
        await it.request("POST", "collections", {"manifest_text": f". {block} 0:1:a\n"})
    ).status == 200


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"manifest_text": "nonsense"}, "manifest_text"),
        ({"manifest_text": f". {EMPTY} 0:0:../../etc/passwd\n"}, "manifest_text"),
        ({"manifest_text": f"./../x {EMPTY} 0:0:a\n"}, "manifest_text"),
        ({"manifest_text": 5}, "manifest_text: must be a string"),
        ({"manifest_text": "", "portable_data_hash": "0" * 32}, "does not match computed hash"),
        ({"portable_data_hash": "0" * 32}, "does not match computed hash"),
        ({"name": ".."}, "name: cannot be"),
        ({"name": "a/b"}, "name: cannot contain"),
        ({"name": 5}, "name: must be a string"),
        ({"name": "a\nb"}, "contains a control character"),
        ({"name": "a\x7f"}, "contains a control character"),
        ({"name": "a\x00"}, "must not contain a NUL"),
        ({"manifest_text": f". {EMPTY} 0:0:a\tb\n"}, "control character '\\t' must be written"),
        ({"manifest_text": f". {EMPTY} 0:0:{'d/' * 10_000}f\n"}, "at most 256 names"),
        ({"manifest_text": f". {EMPTY} 0:0:{'n' * 300}\n"}, "at most 255 bytes"),
        ({"manifest_text": f". {EMPTY} 0:0:a 0:0:a/b\n"}, "both a file and a directory"),
        ({"colour": "red"}, "unknown attribute 'colour'"),
        ({"storage_classes_desired": []}, "cannot be empty"),
        ({"storage_classes_desired": ["a, b"]}, "'a, b' is no name of a storage class"),
        ({"replication_desired": -1}, "replication_desired"),
        ({"delete_at": "2027-01-01"}, "delete_at: must be set together"),
        ({"trash_at": "2027-01-02", "delete_at": "2027-01-01"}, "delete_at: must not be before"),
        ({"trash_at": "noon"}, "trash_at: 'noon' is not a timestamp"),
        ({"file_count": 7}, "file_count: only the server sets it"),
        (
            {"owner_uuid": "zzzzz-tpzed-000000000000009"},
            "owner_uuid: 'zzzzz-tpzed-000000000000009' not found",
        ),
        ({"owner_uuid": "zzzzz-4zz18-000000000000009"}, "owner_uuid"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    reply = await it.request("POST", "collections", body)
    assert reply.status == 422
    assert fault in reply.error
    assert "\n" not in reply.error
    assert await it.collections() == []


async def test_update(it: World) -> None:
    made = await it.collection({"a": b"x"}, name="n")
    path = f"collections/{made['uuid']}"
    same = await it.ok("PUT", path, made)
    assert same["modified_at"] == made["modified_at"]
    changed = await it.ok(
        "PATCH", path, {"collection": {"properties": {"k": 1}, "manifest_text": ""}}
    )
    assert (changed["portable_data_hash"], changed["properties"]) == (EMPTY, {"k": 1})
    assert (await it.ok("PUT", path, {"portable_data_hash": EMPTY}))["file_count"] == 0
    reply = await it.request("PUT", path, {"portable_data_hash": made["portable_data_hash"]})
    assert (reply.status, "does not match" in reply.error) == (422, True)


async def test_names_are_unique_for_each_owner(it: World) -> None:
    first = await it.ok("POST", "collections", {"name": "n"})
    reply = await it.request("POST", "collections", {"name": "n"})
    assert (reply.status, "already exists" in reply.error) == (422, True)
    other = await it.ok("POST", "collections", {"name": "n"}, params={"ensure_unique_name": True})
    assert other["name"] == f"n ({other['uuid'][-15:]})"
    await it.ok("POST", "collections", {"name": "n"}, token=await it.user("u"))
    for _ in range(2):
        assert (await it.ok("POST", "collections", {"name": ""}))["name"] == ""
    assert (await it.request("PUT", f"collections/{other['uuid']}", {"name": "n"})).status == 422
    await it.ok("DELETE", f"collections/{first['uuid']}")
    await it.ok("PUT", f"collections/{other['uuid']}", {"name": "n"})
    assert (await it.request("POST", f"collections/{first['uuid']}/untrash")).status == 422
    back = await it.ok("POST", f"collections/{first['uuid']}/untrash", {"ensure_unique_name": True})
    assert back["name"].startswith("n (")


async def test_trash(it: World) -> None:
    made = await it.collection({"a": b"x"})
    path = f"collections/{made['uuid']}"
    gone = await it.ok("DELETE", path)
    assert gone["is_trashed"]
    assert gone["delete_at"] > gone["trash_at"]
    assert "+A" not in gone["manifest_text"]
    assert (await it.request("GET", path)).status == 404
    assert (await it.request("GET", f"collections/{made['portable_data_hash']}")).status == 404
    assert (await it.ok("GET", path, params={"include_trash": True}))["is_trashed"]
    assert await it.collections() == []
    assert len(await it.collections(include_trash="true")) == 1
    assert (await it.ok("POST", f"{path}/trash"))["trash_at"] == gone["trash_at"]
    assert not (await it.ok("POST", f"{path}/untrash"))["is_trashed"]
    reply = await it.request("POST", f"{path}/untrash")
    assert (reply.status, "cannot untrash" in reply.error) == (422, True)


@pytest.mark.parametrize(
    ("given", "trash", "delete"),
    [
        ({"is_trashed": True}, "2026-01-02", "2026-01-16"),
        ({"is_trashed": False}, None, None),
        ({"trash_at": "2026-02-01"}, "2026-02-01", "2026-02-15"),
        ({"trash_at": "2020-02-01"}, "2026-01-02", "2026-01-16"),
        ({"trash_at": "2026-01-03", "delete_at": "2026-01-04"}, "2026-01-03", "2026-01-16"),
        ({"trash_at": "2026-02-01", "delete_at": "2026-02-02"}, "2026-02-01", "2026-02-02"),
        ({"trash_at": None}, None, None),
    ],
)
async def test_trash_times(it: World, given: Record, trash: JSON, delete: JSON) -> None:
    made = await it.ok("POST", "collections", {"name": "x", **given})
    assert [one and one[:10] for one in (made["trash_at"], made["delete_at"])] == [trash, delete]
    cleared = await it.ok("PUT", f"collections/{made['uuid']}", {"trash_at": None})
    assert (cleared["trash_at"], cleared["delete_at"], cleared["is_trashed"]) == (None, None, False)


async def test_lists_sign_what_is_selected(it: World) -> None:
    for name in ("a", "b"):
        await it.collection({name: b"x"}, name=name)
    plain = (await it.ok("GET", "collections"))["items"]
    assert "manifest_text" not in plain[0]
    params: Record = {"select": ["manifest_text", "unsigned_manifest_text"], "order": "name"}
    items = await it.collections(**params)
    assert "+A" in items[0]["manifest_text"]
    assert "+A" not in items[0]["unsigned_manifest_text"]
    assert len(await it.collections(select=["unsigned_manifest_text"])) == 2


async def test_signatures_in_lists_end_with_the_trash_time(it: World) -> None:
    soon = START + timedelta(hours=1)
    await it.collection({"a": b"x"}, trash_at=format_time(soon))
    (brief,) = await it.collections(select=["manifest_text"])
    (full,) = await it.collections(select=["manifest_text", "trash_at"])
    assert brief.keys() == full.keys() - {"trash_at"}
    for item in (brief, full):
        assert f"@{int(soon.timestamp()):08x}" in item["manifest_text"]


@pytest.mark.parametrize("name", ["manifest_text", "unsigned_manifest_text"])
async def test_manifests_count_for_the_size_of_a_page(tmp_path: Path, name: str) -> None:
    async with world(tmp_path, API={"MaxIndexDatabaseRead": 10}) as it:
        for one in ("a", "b"):
            await it.collection({one: b"x"}, name=one)
        assert len(await it.collections(select=[name])) == 1


async def test_big_manifests_go_to_a_thread(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "LARGE", 1)
    made = await it.collection({"a": b"x"})
    assert "+A" in made["manifest_text"]


async def test_without_signing(tmp_path: Path) -> None:
    async with world(tmp_path, Collections={"BlobSigning": False}) as it:
        token = await it.user("u")
        made = await it.ok(
            "POST", "collections", {"manifest_text": it.manifest({"a": b"x"})}, token=token
        )
        assert made["manifest_text"] == made["unsigned_manifest_text"]


async def test_only_owners_write(it: World) -> None:
    token = await it.user("u")
    mine = await it.ok("POST", "collections", {"name": "n"}, token=token)
    assert (
        await it.request("GET", f"collections/{mine['uuid']}", token=await it.user("v"))
    ).status == 404
    admin = (await it.ok("GET", "users/current"))["uuid"]
    path = f"collections/{mine['uuid']}"
    assert (await it.request("PUT", path, {"owner_uuid": admin}, token=token)).status == 403
    unseen = (await it.ok("GET", "users/system"))["uuid"]
    assert (await it.request("PUT", path, {"owner_uuid": unseen}, token=token)).status == 422
    other = (await it.ok("GET", "users/current", token=await it.user("v")))["uuid"]
    assert (await it.request("PUT", path, {"owner_uuid": other}, token=token)).status == 403
    assert (await it.ok("PUT", path, {"owner_uuid": admin}))["owner_uuid"] == admin
    assert (await it.request("GET", path, token=token)).status == 404


async def test_a_class_that_the_site_does_not_have_is_not_confirmed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        made = await it.ok("POST", "collections", {"storage_classes_desired": ["gold"]})
        assert made["storage_classes_desired"] == ["gold"]
        assert made["storage_classes_confirmed"] == []
        address = f"collections/{made['uuid']}"
        both = await it.ok("PUT", address, {"storage_classes_desired": ["gold", "default"]})
        assert both["storage_classes_confirmed"] == ["default"]
        renamed = await it.ok("PUT", address, {"name": "n"})
        assert renamed["storage_classes_confirmed"] == ["default"]
