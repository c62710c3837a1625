"""An FTP server of one user with a password, and files in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class FtpServer:
    """The server at `port`; `files` by path, `seen` are the commands, `cuts` bytes after which the
    next downloads break off, `missing` commands that it does not know.
    """

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    missing: tuple[str, ...] = ()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the commands of one connection."""
        try:
            await _Session(self, reader, writer).run()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


class _Session:
    def __init__(
        self, server: FtpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._start = 0
        self._renamed = ""
        self._data: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._listening: asyncio.Server | None = None

    async def run(self) -> None:
        self._say("220-Welcome", "220 Ready")
        while line := (await self._reader.readline()).decode().rstrip("\r\n"):
            self._server.seen.append(line)
            name, _, rest = line.partition(" ")
            if name in self._server.missing:
                self._say("500 unknown")
                continue
            await getattr(self, f"_{name.lower()}")(rest)

    def _say(self, *lines: str) -> None:
        self._writer.write("".join(f"{one}\r\n" for one in lines).encode())

    async def _user(self, name: str) -> None:
        self._say("331 password" if name != "anonymous" else "230 welcome")

    async def _pass(self, word: str) -> None:
        self._say("230 in" if word == "secret" else "530 no")

    async def _type(self, kind: str) -> None:
        self._say("200 ok")

    async def _size(self, path: str) -> None:
        found = self._server.files.get(path)
        self._say("550 none" if found is None else f"213 {len(found)}")

    async def _mdtm(self, path: str) -> None:
        self._say("213 20260102030405")

    async def _listen(self) -> int:
        self._data = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._data.set_result((reader, writer))

        self._listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        return int(self._listening.sockets[0].getsockname()[1])

    async def _epsv(self, _: str) -> None:
        self._say(f"229 Entering (|||{await self._listen()}|)")

    async def _pasv(self, _: str) -> None:
        port = await self._listen()
        # Another address than that of the server.
        self._say(f"227 Entering (10,0,0,1,{port // 256},{port % 256})")

    async def _rest(self, start: str) -> None:
        self._start = int(start)
        self._say("350 ok")

    async def _retr(self, path: str) -> None:
        found = self._server.files.get(path)
        if found is None:
            self._say("550 none")
            return
        self._say("150 data")
        _, writer = await self._data
        body, self._start = found[self._start :], 0
        cut = self._server.cuts.pop(0) if self._server.cuts else None
        writer.write(body[:cut])
        writer.close()
        self._say("226 done" if cut is None else "426 broken")
        self._close()

    async def _stor(self, path: str) -> None:
        self._say("150 data")
        reader, writer = await self._data
        self._server.files[path] = await reader.read()
        writer.close()
        self._say("226 done")
        self._close()

    def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()

    async def _mkd(self, path: str) -> None:
        self._say("550 exists")

    async def _rnfr(self, path: str) -> None:
        self._renamed = path
        self._say("350 to")

    async def _rnto(self, path: str) -> None:
        if path.startswith("/full"):
            self._say("452 no room")
            return
        self._server.files[path] = self._server.files.pop(self._renamed)
        self._say("250 ok")

    async def _dele(self, path: str) -> None:
        self._server.files.pop(path, None)
        self._say("250 ok")


@asynccontextmanager
async def ftp_server() -> AsyncIterator[FtpServer]:
    """A server on the loopback interface."""
    made = FtpServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
