"""Logs as files, live and saved."""

from __future__ import annotations

import pytest

from lading.api.container_access import log_files
from lading.testing.world import World


async def with_live_log(it: World, data: bytes) -> tuple[str, str, str]:
    request = await it.submit()
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.request("POST", f"containers/{uuid}/live/stdout.txt", raw=data, token=supervisor)
    return f"container_requests/{request['uuid']}/log", uuid, supervisor


@pytest.mark.parametrize(
    ("asked", "status", "body", "shown"),
    [
        ("", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("lines=1", 200, b"0123456789", None),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=2-3", 206, b"23", "bytes 2-3/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-0", 206, b"", "bytes 10-9/10"),
        ("bytes=-00", 206, b"", "bytes 10-9/10"),
        ("bytes=10-", 416, None, None),
        ("bytes=5-4", 416, None, None),
    ],
)
async def test_ranges_of_live_logs(
    it: World, asked: str, status: int, body: bytes, shown: str | None
) -> None:
    path, uuid, _ = await with_live_log(it, b"0123456789")
    reply = await it.request(
        "GET", f"{path}/{uuid}/stdout.txt", headers={"range": asked} if asked else {}
    )
    assert reply.status == status
    assert reply.headers.get("content-range") == shown
    if body is not None:
        assert reply.body == body
        assert int(reply.headers["content-length"]) == len(body)


async def test_the_size_of_an_empty_log_is_told_as_well(it: World) -> None:
    path, uuid, _ = await with_live_log(it, b"")
    reply = await it.request("GET", f"{path}/{uuid}/stdout.txt", headers={"range": "bytes=-0"})
    assert (reply.status, reply.body, reply.headers["content-range"]) == (206, b"", "bytes 0--1/0")


async def test_listings(it: World) -> None:
    path, uuid, _ = await with_live_log(it, b"x")
    assert (await it.ok("GET", path))["items"] == [{"name": uuid}]
    assert (await it.ok("GET", f"{path}/{uuid}"))["items"] == [{"name": "stdout.txt"}]
    for wrong in (f"{uuid}/nope.txt", "zzzzz-dz642-000000000000009/a", f"{uuid}/../x"):
        assert (await it.request("GET", f"{path}/{wrong}")).status == 404


async def test_saved_logs(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    blocks = " ".join(it.blocks.put(data) for data in (b"abc", b"def"))
    text = f"{it.manifest({'a.txt': b'hello ', 'b.txt': b'bb'})}./dir {blocks} 1:4:c.txt\n"
    log = await it.ok("POST", "collections", {"manifest_text": text})
    end = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"]}
    await it.ok("PUT", f"containers/{uuid}", end, token=supervisor)
    path = f"container_requests/{request['uuid']}/log/{uuid}"
    assert (await it.request("GET", f"{path}/a.txt")).body == b"hello "
    assert (await it.request("GET", f"{path}/dir/c.txt")).body == b"bcde"
    part = await it.request("GET", f"{path}/dir/c.txt", headers={"range": "bytes=1-2"})
    assert (part.status, part.body) == (206, b"cd")
    assert (await it.ok("GET", path))["items"] == [
        {"name": "a.txt"},
        {"name": "b.txt"},
        {"name": "dir"},
    ]
    head = await it.request("HEAD", f"{path}/a.txt")
    assert (head.body, head.headers["content-length"]) == (b"", "6")
    assert (await it.request("GET", f"{path}/nope")).status == 404


async def test_no_log_yet(it: World) -> None:
    request = await it.submit()
    path = f"container_requests/{request['uuid']}/log/{request['container_uuid']}"
    assert (await it.ok("GET", path))["items"] == []
    assert (await it.request("GET", f"{path}/a.txt")).status == 404


async def test_live_logs_stay_when_nothing_was_saved(it: World) -> None:
    path, uuid, supervisor = await with_live_log(it, b"last words")
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)
    assert (await it.request("GET", f"{path}/{uuid}/stdout.txt")).body == b"last words"


async def test_a_file_that_goes_while_it_is_read(it: World) -> None:
    _, uuid, _ = await with_live_log(it, b"0123456789")
    file = it.app.services.access.spool.open(uuid, "stdout.txt")
    assert file is not None
    stream = log_files.read_file(file, 0, 20)
    assert await anext(stream) == b""
    it.app.services.access.spool.remove(uuid)
    assert [part async for part in stream] == [b"0123456789"]
    assert file.closed


async def test_the_size_of_a_saved_log(it: World) -> None:
    request = await it.submit()
    supervisor = await it.lock(request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    log = await it.ok("POST", "collections", {"manifest_text": it.manifest({"a.txt": b"hello"})})
    end = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"]}
    await it.ok("PUT", f"containers/{request['container_uuid']}", end, token=supervisor)
    path = f"container_requests/{request['uuid']}/log/{request['container_uuid']}/a.txt"
    reply = await it.request("GET", path, headers={"range": "bytes=-0"})
    assert (reply.status, reply.body, reply.headers["content-range"]) == (206, b"", "bytes 5-4/5")


async def test_asking_for_the_size_reads_nothing(it: World) -> None:
    path, uuid, _ = await with_live_log(it, b"0123456789")
    reply = await it.request("HEAD", f"{path}/{uuid}/stdout.txt")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "10")


async def test_a_range_beyond_the_end_of_a_live_log(it: World) -> None:
    path, uuid, _ = await with_live_log(it, b"0123456789")
    assert (
        await it.request("GET", f"{path}/{uuid}/stdout.txt", headers={"Range": "bytes=20-"})
    ).status == 416
