"""Websockets of the server process to its own API."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import Forbidden, Unavailable
from lading.wiring.own_transport import App, OwnTransport

_HEADERS = {"Authorization": "Bearer x"}


def _transport(api: App) -> OwnTransport:
    return OwnTransport(api, unix_socket=Path("/nonexistent"), most=1)


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": f"{scope['path']} {message['text']}"})
        if message["text"] == "bye":
            return


async def test_messages_go_both_ways() -> None:
    async with _transport(_echo).websocket("/a%20b?c=d", headers=_HEADERS) as socket:
        for word in ("one", "two"):
            await socket.send(word)
            assert await socket.receive(5.0) == f"/a b {word}"


async def test_the_api_sees_the_head_of_the_request() -> None:
    seen: list[Any] = []

    async def api(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await _echo(scope, receive, send)

    async with _transport(api).websocket("/a%20b?c=d", headers=_HEADERS):
        pass
    assert seen[0]["query_string"] == b"c=d"
    assert seen[0]["headers"] == [(b"authorization", b"Bearer x")]


async def test_the_end_of_the_api_is_the_end() -> None:
    async with _transport(_echo).websocket("/", headers=_HEADERS) as socket:
        await socket.send("bye")
        assert await socket.receive(5.0) == "/ bye"
        assert await socket.receive(5.0) is None
        assert await socket.receive(5.0) is None
        with pytest.raises(Unavailable):
            await socket.send("still there?")


async def test_a_refused_connection_is_told() -> None:
    async def api(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.close", "code": 4401})

    with pytest.raises(Forbidden):
        async with _transport(api).websocket("/", headers=_HEADERS):
            pass


async def test_silence_is_told() -> None:
    async with _transport(_echo).websocket("/", headers=_HEADERS) as socket:
        with pytest.raises(Unavailable, match="nothing heard for 0.01 s"):
            await socket.receive(0.01)


async def test_an_api_that_is_not_heard_waits_and_ends() -> None:
    ended = asyncio.Event()
    told: list[int] = []

    async def api(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        for number in range(100):
            await send({"type": "websocket.send", "text": "x"})
            told.append(number)
        ended.set()

    async with _transport(api).websocket("/", headers=_HEADERS):
        await asyncio.sleep(0)
        assert not ended.is_set()
        assert len(told) < 100
    assert ended.is_set()


async def test_a_fault_of_the_api_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def api(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        raise RuntimeError("a fault")

    with caplog.at_level(logging.ERROR):
        async with _transport(api).websocket("/", headers=_HEADERS) as socket:
            assert await socket.receive(5.0) is None
    assert "websocket within the process failed" in caplog.text
