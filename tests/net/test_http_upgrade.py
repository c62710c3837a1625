"""Requests that turn a connection into something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.core.errors import Forbidden, LadingError, Unavailable
from lading.core.protocols.http_head import HttpHead
from lading.net.http_upgrade import Way, parse_url, switch, trusting


@asynccontextmanager
async def answering(path: Path, answer: bytes) -> AsyncIterator[tuple[Way, list[bytes]]]:
    """A server on a Unix socket with one answer, and what it was sent."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"a=b+c"))
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path / "s")
    try:
        yield Way(unix_socket=str(path / "s")), heard
    finally:
        server.close()


async def ask(way: Way) -> HttpHead:
    pipe = await way.open()
    answer = await switch(pipe, "/ssh", "ssh", host="h", headers={"X-A": "1"}, form={"a": "b c"})
    assert await pipe.reader.read() == b"SSH-2.0"
    await pipe.close()
    return answer


async def test_a_connection_that_is_switched(tmp_path: Path) -> None:
    said = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ssh\r\nX-B: 2\r\n\r\nSSH-2.0"
    async with answering(tmp_path, said) as (way, heard):
        assert (await ask(way)).get("x-b") == "2"
    assert heard[0].startswith(
        b"POST /ssh HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nConnection: upgrade\r\nUpgrade: ssh\r\n"
    )


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (
            b'HTTP/1.1 403 No\r\nContent-Length: 26\r\n\r\n{"errors":["not","yours"]}',
            Forbidden,
            "not; yours",
        ),
        (b'HTTP/1.1 403 No\r\n\r\n{"errors":["not","yours"]}', Forbidden, "not; yours"),
        (b"HTTP/1.1 503 No\r\n\r\nplain\n", Unavailable, "plain"),
        (b"HTTP/1.1 503 No\r\n\r\n" + b"[" * 2000, Unavailable, r"\[\["),
        (b"HTTP/1.1 503 No\r\n\r\n", Unavailable, "HTTP/1.1 503 No"),
        (b"HTTP/1.1 101 Yes\r\nUpgrade: other\r\n\r\n", Unavailable, "another protocol"),
        (b"", Unavailable, "ended"),
    ],
)
async def test_a_refusal_is_the_error_that_it_says(
    tmp_path: Path, said: bytes, kind: type[LadingError], text: str
) -> None:
    async with answering(tmp_path, said) as (way, _):
        with pytest.raises(kind, match=text):
            await ask(way)


async def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot connect"):
        await Way(unix_socket=str(tmp_path / "none")).open()


def test_addresses() -> None:
    tls = trusting(None, insecure=True)
    assert (parse_url("https://h:1/", tls).host, parse_url("https://h:1/", tls).port) == ("h", 1)
    assert parse_url("https://[::1]:2", tls).host == "::1"
    assert parse_url("https://h/", tls).port == 443
    assert parse_url("https://h:3", tls).name == "h:3"
    for wrong in ("http://h:1", "https://h:x"):
        with pytest.raises(Unavailable, match="not https"):
            parse_url(wrong, tls)
