"""Files of FTP servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lading.core.errors import Forbidden, Invalid, LadingError, NotFound
from lading.core.tes.locations import parse_location
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.ftp_server import FtpSource, open_session
from lading.tes.transfers.outside_http import PassingFault
from tests.tes.ftp import FtpServer, ftp_server
from tests.tes.site import TaskWorld
from tests.tes.transfers.test_inputs import content, fetched, logs, mount
from tests.tes.transfers.test_outputs import delivered

NETWORK = OutsideNetwork(allowed=("127.0.0.0/8",))


@pytest.fixture
async def ftp() -> AsyncIterator[FtpServer]:
    async with ftp_server() as made:
        yield made


def url(ftp: FtpServer, path: str, user: str = "me:secret@") -> str:
    return f"ftp://{user}127.0.0.1:{ftp.port}{path}"


async def test_a_file(it: TaskWorld, ftp: FtpServer) -> None:
    ftp.files["/d/a b"] = b"hello"
    task = await fetched(it, url(ftp, "/d/a%20b"))
    assert await content(it, task) == {"a b": b"hello"}
    assert await mount(it, await fetched(it, url(ftp, "/d/a%20b"))) == await mount(it, task)
    anonymous = await fetched(it, url(ftp, "/d/a%20b", ""))
    assert await content(it, anonymous) == {"a b": b"hello"}


async def test_what_is_cut_goes_on(it: TaskWorld, ftp: FtpServer) -> None:
    ftp.files["/a"] = bytes(range(256)) * 8192
    ftp.cuts = [1 << 20]
    assert await content(it, await fetched(it, url(ftp, "/a"))) == {"a": ftp.files["/a"]}
    assert f"REST {1 << 20}" in ftp.seen


async def test_old_servers(it: TaskWorld, ftp: FtpServer) -> None:
    ftp.files["/a"] = b"hello"
    # The address that PASV names is not used.
    ftp.missing = ("SIZE", "MDTM", "EPSV")
    assert await content(it, await fetched(it, url(ftp, "/a"))) == {"a": b"hello"}


@pytest.mark.parametrize(
    ("path", "user", "text"),
    [("/none", "me:secret@", "there is no such file"), ("/none", "me:wrong@", "not logged in")],
)
async def test_what_cannot_be_fetched(
    it: TaskWorld, ftp: FtpServer, path: str, user: str, text: str
) -> None:
    task = await fetched(it, url(ftp, path, user))
    assert await it.state(task) == "SYSTEM_ERROR"
    said = (await logs(it, task))[0]
    assert text in said
    assert "wrong" not in said


async def test_outputs(it: TaskWorld, ftp: FtpServer) -> None:
    task = await delivered(it, {"path": "/out/a.txt", "url": url(ftp, "/x/y/result")})
    assert task["state"] == "COMPLETE"
    assert ftp.files == {"/x/y/result": b"one"}
    task = await delivered(it, {"path": "/out/a.txt", "url": url(ftp, "/full/result")})
    assert task["state"] == "SYSTEM_ERROR"
    assert ftp.files == {"/x/y/result": b"one"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", Invalid),
        (b"220-x\r\n" * 300, Invalid),
        (b"x" * 100_000 + b"\r\n", Invalid),
        (b"", PassingFault),
        (b"421 busy\r\n", PassingFault),
        (b"530 no\r\n", Forbidden),
        (b"550 no\r\n", NotFound),
        (b"220 hello\r\n230 in\r\n200 ok\r\n229 odd\r\n", Invalid),
    ],
)
async def test_servers_that_say_odd_things(said: bytes, error: type[LadingError]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        place = parse_location(f"ftp://127.0.0.1:{server.sockets[0].getsockname()[1]}/a")
        with pytest.raises(error):
            async with open_session(NETWORK, place) as session:
                await session.open_data()


async def test_where_nobody_listens() -> None:
    source = FtpSource(NETWORK, parse_location("ftp://127.0.0.1:1/a"), "ftp://127.0.0.1:1/a")
    with pytest.raises(PassingFault):
        async with source.open(0, None):
            pass
    with pytest.raises(Forbidden):
        async with open_session(OutsideNetwork(), parse_location("ftp://127.0.0.1:1/a")):
            pass


async def test_commands_cannot_be_smuggled(ftp: FtpServer) -> None:
    place = parse_location(url(ftp, "/a"))
    async with open_session(NETWORK, place) as session:
        with pytest.raises(Invalid, match="control character"):
            await session.ask("RETR a\r\nDELE b", "1")
