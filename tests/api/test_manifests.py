"""Content that is spliced: replace_files and replace_segments over HTTP, what they may name,
writers at once.
"""

from __future__ import annotations

import asyncio

import pytest

from lading.core.data import filetree
from lading.core.records.schema import JSON, Record
from lading.testing.world import World

EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"


def paths(record: Record) -> list[str]:
    return [
        path for path, _ in filetree.walk(filetree.from_manifest(record["unsigned_manifest_text"]))
    ]


async def change(it: World, record: Record, files: JSON, **more: JSON) -> Record:
    body = {"collection": more, "replace_files": files}
    found: Record = await it.ok("PUT", f"collections/{record['uuid']}", body)
    return found


async def test_files_are_moved_copied_and_deleted(it: World) -> None:
    made = await it.collection({"a": b"x", "b": b"yy"})
    changed = await change(
        it, made, {"/d/a": "current/a", "/a": "", "/c": "current/b", "/e": EMPTY}
    )
    assert paths(changed) == ["b", "c", "d", "d/a", "e"]
    assert (changed["file_count"], changed["file_size_total"]) == (3, 5)
    assert changed["portable_data_hash"] != made["portable_data_hash"]


async def test_files_of_another_collection_and_of_the_request(it: World) -> None:
    made, other = await it.collection({"a": b"x"}), await it.collection({"f": b"yy"})
    text = it.manifest({"g": b"zzz"})
    files = {
        "/sub": other["portable_data_hash"],
        "/h": "manifest_text/g",
        "/a": f"{other['portable_data_hash']}/f",
    }
    changed = await change(it, made, files, manifest_text=text)
    assert paths(changed) == ["a", "h", "sub", "sub/f"]
    created = await it.ok(
        "POST", "collections", {"replace_files": {"/x": files["/a"]}, "name": "n"}
    )
    assert (paths(created), created["name"]) == (["x"], "n")


async def test_a_query_parameter_does_as_well(it: World) -> None:
    made = await it.collection({"a": b"x"})
    found = await it.ok(
        "PUT", f"collections/{made['uuid']}", params={"replace_files": {"/b": "current/a"}}
    )
    assert paths(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"replace_files": {"a": ""}}, "invalid replace_files target"),
        ({"replace_files": {"/a": "x"}}, "invalid replace_files source"),
        ({"replace_files": {"/b": "current/c"}}, "is not there"),
        ({"replace_files": {"/b": f"{'0' * 32}+5/c"}}, "no collection with content"),
        (
            {
                "replace_files": {"/b": "current/a"},
                "collection": {"manifest_text": f". {EMPTY} 0:0:x\n"},
            },
            "no source",
        ),
        (
            {"replace_files": {"/x" * 200: "current/a", "/y": f"manifest_text{'/z' * 9}"}},
            "is not there",
        ),
        ({"replace_segments": {"a": "b"}}, "not '<locator> <offset> <length>'"),
        ({"replace_files": ["/a"]}, "must be an object"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    made = await it.collection({"a": b"x"})
    reply = await it.request("PUT", f"collections/{made['uuid']}", body)
    assert (reply.status, fault in reply.error, "\n" in reply.error) == (400, True, False)
    assert (await it.ok("GET", f"collections/{made['uuid']}"))["etag"] == made["etag"]


async def test_a_tree_too_deep_to_store_is_refused(it: World) -> None:
    made = await it.collection({"a": b"x"})
    deep = "/x" * 200
    made = await change(it, made, {deep: "current/a"})
    reply = await it.request(
        "PUT", f"collections/{made['uuid']}", {"replace_files": {deep: "current/x"}}
    )
    assert (reply.status, "256 names" in reply.error) == (400, True)


async def test_only_what_the_caller_can_read(it: World) -> None:
    token, secret = await it.user("u"), await it.collection({"a": b"x"})
    body: Record = {"replace_files": {"/a": f"{secret['portable_data_hash']}/a"}}
    reply = await it.request("POST", "collections", body, token=token)
    assert (reply.status, "no collection with content" in reply.error) == (400, True)
    mine = await it.collection({"b": b"y"}, token=token)
    assert (await it.request("PUT", f"collections/{mine['uuid']}", body, token=token)).status == 400
    spec = {f"{it.blocks.put(b'y')} 0 1": f"{it.blocks.put(b'x')} 0 1"}
    reply = await it.request(
        "PUT", f"collections/{mine['uuid']}", {"replace_segments": spec}, token=token
    )
    assert (reply.status, "replace_segments" in reply.error) == (403, True)


async def test_segments(it: World) -> None:
    token = await it.user("u")
    made = await it.collection({"a": b"xx", "b": b"yy"}, token=token)
    merged = it.signed(it.blocks.put(b"xxyy"), token)
    spec = {
        f"{it.blocks.put(b'xx')} 0 2": f"{merged} 0 2",
        f"{it.blocks.put(b'yy')} 0 2": f"{merged} 2 2",
    }
    path = f"collections/{made['uuid']}"
    changed = await it.ok("PUT", path, {"replace_segments": spec}, token=token)
    assert changed["unsigned_manifest_text"] == f". {it.blocks.put(b'xxyy')} 0:2:a 2:2:b\n"
    body = {"collection": {"manifest_text": made["manifest_text"]}, "replace_segments": spec}
    assert (await it.ok("PUT", path, body, token=token))["file_size_total"] == 4


async def test_writers_at_once_do_not_lose_files(it: World) -> None:
    made = await it.collection({"start": b"x"})
    names = [f"f{number}" for number in range(12)]
    await asyncio.gather(*(change(it, made, {f"/{name}": "current/start"}) for name in names))
    assert paths(await it.ok("GET", f"collections/{made['uuid']}")) == sorted([*names, "start"])


async def test_an_etag_that_no_longer_fits_is_refused(it: World) -> None:
    made = await it.collection({"a": b"x"})
    path, etag = f"collections/{made['uuid']}", {"if-match": f'"{made["etag"]}"'}
    changed = await it.ok("PUT", path, {"name": "n"}, headers=etag)
    reply = await it.request("PUT", path, {"name": "m"}, headers=etag)
    assert (reply.status, "changed meanwhile" in reply.error) == (412, True)
    for good in ("*", f'"other", "{changed["etag"]}"'):
        assert (
            await it.request("PUT", path, {"name": "n"}, headers={"if-match": good})
        ).status == 200


async def test_sizes_beyond_every_number_are_refused(it: World) -> None:
    block = f"{'a' * 32}+{'9' * 18}"
    text = f". {block} " + " ".join(f"0:{'9' * 18}:f{number}" for number in range(10)) + "\n"
    reply = await it.request("POST", "collections", {"manifest_text": text})
    assert (reply.status, "a collection has at most" in reply.error) == (422, True)
