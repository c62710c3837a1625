from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from lading.core.errors import Corrupt, Invalid, Malformed
from lading.net.http_connections import HttpConnections, IdleConnections, Outgoing
from lading.net.http_upgrade import Way

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Server:
    """Answers the requests of each connection with the next texts; an empty one closes it."""

    def __init__(self, *connections: tuple[bytes, ...]) -> None:
        self._connections = iter(connections)
        self.heads: list[bytes] = []
        self.opened = 0
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.tasks.append(asyncio.current_task())
        try:
            for answer in next(self._connections, ()):
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def _connected(
    folder: Path, *connections: tuple[bytes, ...]
) -> AsyncIterator[tuple[HttpConnections, _Server]]:
    server = _Server(*connections)
    listening = await asyncio.start_unix_server(server.serve, folder / "s")
    made = HttpConnections(Way(unix_socket=str(folder / "s")), "h")
    try:
        yield made, server
    finally:
        made.close()
        listening.close()
        await asyncio.gather(*filter(None, server.tasks))


async def _get(made: HttpConnections, method: str = "GET", timeout: float = 5) -> bytes:
    async with made.exchange(method, "/x", {"a": "b"}, timeout=timeout) as answer:
        return b"".join([piece async for piece in answer.pieces])


async def test_a_connection_is_used_again(tmp_path: Path) -> None:
    async with _connected(tmp_path, (_OK, _OK)) as (made, server):
        assert [await _get(made), await _get(made)] == [b"ok", b"ok"]
    assert server.opened == 1
    assert server.heads[0] == b"GET /x HTTP/1.1\r\nHost: h\r\na: b\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_a_connection_that_is_not_kept(tmp_path: Path, answer: bytes) -> None:
    async with _connected(tmp_path, (answer, _OK), (_OK,)) as (made, server):
        assert [await _get(made), await _get(made)] == [b"ok", b"ok"]
    assert server.opened == 2


async def test_a_body_may_end_with_its_connection(tmp_path: Path) -> None:
    async with _connected(tmp_path, (b"HTTP/1.1 200 OK\r\n\r\nall",), (_OK,)) as (made, _):
        assert [await _get(made), await _get(made)] == [b"all", b"ok"]


async def test_informational_responses_are_skipped(tmp_path: Path) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    async with _connected(tmp_path, (early + _OK, 10 * early)) as (made, _):
        assert await _get(made) == b"ok"
        with pytest.raises(Malformed, match="only informational"):
            await _get(made)


async def test_a_kept_connection_that_is_closed_at_the_next_request(tmp_path: Path) -> None:
    """A request that may arrive twice is sent again, another one is not."""
    async with _connected(tmp_path, (_OK, b""), (_OK, b"")) as (made, server):
        await _get(made)
        assert await _get(made) == b"ok"
        with pytest.raises(ConnectionResetError, match="before the answer"):
            await _get(made, "POST")
    assert server.opened == 2


async def test_an_answer_that_breaks_off(tmp_path: Path) -> None:
    async with _connected(tmp_path, (_OK[:-1],)) as (made, _):
        with pytest.raises(Corrupt):
            await _get(made)


async def test_a_silent_server(tmp_path: Path) -> None:
    silent = (b"", b"")
    async with _connected(tmp_path, silent) as (made, _):
        with pytest.raises(TimeoutError):
            await _get(made, timeout=0.05)


@pytest.mark.parametrize(("path", "value"), [("/x y", "v"), ("/x", "a\r\nb: c"), ("/x\n", "v")])
async def test_what_http_does_not_allow_is_not_sent(path: str, value: str) -> None:
    made = HttpConnections(Way(unix_socket="/nonexistent"), "h")
    with pytest.raises(Invalid, match="does not allow"):
        async with made.exchange("GET", path, {"a": value}, timeout=1):
            pass


async def test_an_error_of_the_sender_is_told(tmp_path: Path) -> None:
    async def send(out: Outgoing) -> None:
        await out.write(b"x")
        raise Invalid("shorter")

    async with _connected(tmp_path, (b"", b"")) as (made, _):
        with pytest.raises(Invalid, match="shorter"):
            async with made.exchange("PUT", "/", {}, send=send, timeout=5):
                pass


async def test_a_response_before_the_body_was_sent(tmp_path: Path) -> None:
    """The connection is not used again: the rest of the body would be the next request."""

    async def send(out: Outgoing) -> None:
        await asyncio.Event().wait()

    async with _connected(tmp_path, (_OK,), (_OK,)) as (made, server):
        async with made.exchange("PUT", "/", {}, send=send, timeout=5) as answer:
            assert [piece async for piece in answer.pieces] == [b"ok"]
        assert await _get(made) == b"ok"
    assert server.opened == 2


def test_on_the_loop_of_uvloop() -> None:
    async def talk() -> bytes:
        server = _Server((_OK,), (_OK,))
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        made = HttpConnections(Way(host="127.0.0.1", port=port), "h")
        try:
            return await _get(made)
        finally:
            made.close()
            listening.close()
            await asyncio.gather(*filter(None, server.tasks))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(talk()) == b"ok"


def test_the_connection_that_was_used_last_is_used_next() -> None:
    now, gone = [0.0], list[str]()
    idle: IdleConnections[str] = IdleConnections(
        lambda connection: connection != "closed", gone.append, lambda: now[0]
    )
    assert idle.take() is None
    for connection in ("old", "new", "closed"):
        idle.keep(connection)
    assert (idle.take(), gone) == ("new", ["closed"])
    now[0] = 5.0
    assert (idle.take(), gone) == (None, ["closed", "old"])
    idle.keep("kept")
    idle.close()
    idle.close()
    assert gone == ["closed", "old", "kept"]
