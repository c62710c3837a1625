"""Logs as server-sent events: what was there, what comes, further attempts, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.api.container_access import log_files, log_streaming
from lading.testing.world import World, world
from tests.api.listening import crunch_run, running

PATIENCE = 180.0


@pytest.fixture
async def it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(log_streaming, "PERIOD", 0.001)
    monkeypatch.setattr(log_streaming.stream, "__kwdefaults__", {"period": 0.001})
    async with world(tmp_path) as made:
        yield made


class Reader:
    """A client that reads events until it leaves."""

    def __init__(self, it: World, path: str, **headers: str) -> None:
        self.text = ""
        self.status = 0
        self._news, self._left = asyncio.Event(), asyncio.Event()
        sent = {"authorization": f"Bearer {it.admin}", "accept": "text/event-stream", **headers}
        scope = {
            "type": "http", "method": "GET", "path": f"/arvados/v1/{path}", "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode())
                        for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
        }  # fmt: skip
        self.task = asyncio.create_task(it.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self._news.set()

    async def until(self, word: str) -> str:
        """All that was said, once a word was."""
        async with asyncio.timeout(PATIENCE):
            while word not in self.text:
                self._news.clear()
                await self._news.wait()
        return self.text

    async def leave(self) -> None:
        """Read no more."""
        self._left.set()
        await asyncio.wait_for(self.task, PATIENCE)


async def started(it: World, **more: Any) -> tuple[str, str, str]:
    request = await it.submit(use_existing=False, **more)
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return request["uuid"], uuid, supervisor


async def write(it: World, uuid: str, supervisor: str, data: bytes, offset: int = 0) -> None:
    params = {"offset": str(offset)}
    reply = await it.request(
        "POST", f"containers/{uuid}/live/stdout.txt", raw=data, token=supervisor, params=params
    )
    assert reply.status == 200


async def test_lines_come_as_they_are_written_until_the_end(it: World) -> None:
    request, uuid, supervisor = await started(it)
    await write(it, uuid, supervisor, b"one\ntw")
    reader = Reader(it, f"container_requests/{request}/log/{uuid}/stdout.txt")
    assert await reader.until("one") == f": log\n\nid: {uuid}:4\ndata: one\n\n"
    await write(it, uuid, supervisor, b"o\nthree", 6)
    assert (await reader.until("two")).endswith(f"id: {uuid}:8\ndata: two\n\n")
    log = await it.collection({"stdout.txt": b"one\ntwo\nthree and more"}, is_trashed=True)
    final = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"],
             "output": (await it.collection({}))["portable_data_hash"]}  # fmt: skip
    await it.ok("PUT", f"containers/{uuid}", final, token=supervisor)
    said = await reader.until("event: end")
    assert said.endswith(f"id: {uuid}:22\ndata: three and more\n\nevent: end\ndata: Complete\n\n")
    await asyncio.wait_for(reader.task, PATIENCE)
    again = Reader(
        it, f"container_requests/{request}/log/{uuid}/stdout.txt", last_event_id=f"{uuid}:8"
    )
    assert "two" not in await again.until("event: end")


async def test_another_attempt_follows_on(it: World) -> None:
    request, uuid, supervisor = await started(it)
    await write(it, uuid, supervisor, b"first\n")
    reader = Reader(it, f"container_requests/{request}/log/{uuid}/stdout.txt")
    await reader.until("first")
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)
    second = (await it.ok("GET", f"container_requests/{request}"))["container_uuid"]
    assert second != uuid
    assert (await reader.until("event: attempt")).endswith(f"event: attempt\ndata: {second}\n\n")
    holder = await it.lock(second)
    await write(it, second, holder, b"second\n")
    assert (await reader.until("second\n")).endswith(f"id: {second}:7\ndata: second\n\n")
    await reader.leave()


async def test_who_leaves_is_not_served_on_and_silence_is_not_dead(it: World) -> None:
    request, uuid, _ = await started(it)
    reader = Reader(it, f"container_requests/{request}/log/{uuid}/stdout.txt")
    await reader.until(": still there")
    await reader.leave()


async def test_what_is_not_there(it: World) -> None:
    request, uuid, _ = await started(it)
    for path in (uuid, "zzzzz-dz642-000000000000000/stdout.txt", f"{uuid}/a/b"):
        reader = Reader(it, f"container_requests/{request}/log/{path}")
        await asyncio.wait_for(reader.task, PATIENCE)
        assert reader.status == 404


async def test_a_log_that_is_at_the_gateway_of_its_supervisor(it: World, tmp_path: Path) -> None:
    files = {"stdout.txt": "one\ntwo\n"}
    async with running(it, tmp_path, lambda key: crunch_run(key, files)) as (path, uuid, _):
        reader = Reader(it, f"{path}/stdout.txt")
        assert (await reader.until("two")).endswith(f"id: {uuid}:8\ndata: two\n\n")
        files["stdout.txt"] += "three\n"
        await reader.until("three")
        await it.ok(
            "PUT", f"containers/{uuid}", {"state": "Complete", "exit_code": 0}, token=it.dispatcher
        )
        assert (await reader.until("event: end")).endswith("data: Complete\n\n")
        await asyncio.wait_for(reader.task, PATIENCE)


async def test_a_block_of_a_saved_log_is_read_once(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "PART", 4)
    request = await it.submit()
    uuid, asked, get = request["container_uuid"], list[str](), it.blocks.get
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    text = it.manifest({"a.txt": b"one\ntwo\nthree\n" * 9})
    log = await it.ok("POST", "collections", {"manifest_text": text})
    end = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"]}
    await it.ok("PUT", f"containers/{uuid}", end, token=supervisor)

    async def counting(locator: str, /) -> bytes:
        asked.append(locator)
        return await get(locator)

    monkeypatch.setattr(it.blocks, "get", counting)
    path = f"container_requests/{request['uuid']}/log/{uuid}/a.txt"
    assert (await it.request("GET", path)).body == b"one\ntwo\nthree\n" * 9
    assert (await Reader(it, path).until("event: end")).count("data: ") == 28
    assert len(asked) == 2
