"""Files of an FTP server (RFC 959, 2428, 3659), as inputs and as outputs.

Passive mode only. The data connection goes to the address of the control connection, whatever
address the server names. The validator of a file is its time and its size. An output is stored
under a temporary name and renamed. User and password go in clear text, as FTP has it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from lading.core.errors import Forbidden, Invalid, LadingError, NotFound
from lading.core.tes.locations import Location, shown
from lading.core.tes.transfers import ObjectFacts
from lading.net.outside_way import OutsideNetwork, OutsideWay
from lading.net.pipes import Pipe
from lading.tes.transfers.endpoints import OpenObject, OutgoingFile
from lading.tes.transfers.outside_http import TIMEOUT, PassingFault

_PIECE: Final = 1 << 17
# Lines of a reply.
_MOST_LINES: Final = 200
_REPLY: Final = re.compile(r"([1-5]\d\d)([ -])(.*)")
_PASSIVE: Final = re.compile(r"(?:\d{1,3},){4}(\d{1,3}),(\d{1,3})")
_EXTENDED: Final = re.compile(r"\(\|\|\|(\d{1,5})\|\)")


class FtpSession:
    """The control connection to a server, logged in."""

    def __init__(self, pipe: Pipe, host: str, network: OutsideNetwork) -> None:
        self._pipe = pipe
        self._host = host
        self._network = network

    async def log_in(self, user: str, password: str) -> None:
        """Log in, and ask for bytes as they are."""
        await self.expect("2")
        reply = await self.ask(f"USER {user or 'anonymous'}", "23")
        if reply.startswith("3"):
            await self.ask(f"PASS {password or 'anonymous@'}", "2")
        await self.ask("TYPE I", "2")

    async def ask(self, command: str, good: str) -> str:
        """The reply to a command, whose code begins with one of the digits `good`. Raises the error
        of another one.
        """
        if any(character < " " for character in command):
            raise Invalid(f"{self._host}: a name or a password has a control character")
        self._pipe.writer.write(command.encode("utf-8", "surrogateescape") + b"\r\n")
        return await self.expect(good)

    async def expect(self, good: str) -> str:
        """The next reply, as `ask`."""
        async with asyncio.timeout(TIMEOUT):
            reply = await self._reply()
        code = reply[:3]
        if code[0] in good:
            return reply
        answer = f"{self._host}: the FTP server answered {code}"
        if code.startswith("4"):
            raise PassingFault(answer)
        if code in ("530", "532"):
            raise Forbidden(f"{answer}: not logged in")
        if code == "550":
            raise NotFound(f"{answer}: there is no such file, or it may not be used")
        raise Invalid(answer)

    async def _reply(self) -> str:
        """The code and the text of the last line of a reply."""
        code = ""
        for _ in range(_MOST_LINES):
            try:
                line = (await self._pipe.reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")
            except asyncio.LimitOverrunError as error:
                raise Invalid(f"{self._host}: a line of a reply is too long") from error
            match = _REPLY.fullmatch(line)
            # "123-" begins a reply of several lines, which a line with "123 " ends.
            if match and match[2] == " " and match[1] == (code or match[1]):
                return f"{match[1]} {match[3]}"
            if match and not code:
                code = match[1]
            elif not code:
                break
        raise Invalid(f"{self._host}: does not answer as an FTP server")

    async def open_data(self) -> Pipe:
        """A data connection, to the address of the control connection."""
        address = str(self._pipe.writer.get_extra_info("peername")[0])
        try:
            match = _EXTENDED.search(await self.ask("EPSV", "2"))
            port = int(match[1]) if match else 0
        except Invalid:
            passive = _PASSIVE.search(await self.ask("PASV", "2"))
            port = int(passive[1]) * 256 + int(passive[2]) if passive else 0
        if not 0 < port < 1 << 16:
            raise Invalid(f"{self._host}: named no port for the data")
        reader = asyncio.StreamReader(limit=_PIECE)
        return await OutsideWay(host=address, port=port, network=self._network).connect(
            reader, timeout=TIMEOUT
        )


@asynccontextmanager
async def open_session(network: OutsideNetwork, location: Location) -> AsyncGenerator[FtpSession]:
    """A session with the user and the password of a location, else as `anonymous`. Raises
    PassingFault, Forbidden, Invalid.
    """
    host = location.host
    pipe: Pipe | None = None
    try:
        way = OutsideWay(host=host, port=location.port, network=network)
        pipe = await way.connect(asyncio.StreamReader(), timeout=TIMEOUT)
        session = FtpSession(pipe, host, network)
        await session.log_in(location.user, location.password)
        yield session
    except (OSError, asyncio.IncompleteReadError) as error:
        reason = str(error) or "no answer"
        raise PassingFault(f"{host}: the connection broke: {reason}") from error
    finally:
        if pipe is not None:
            pipe.writer.transport.abort()


class FtpSource:
    """Implements ObjectSource."""

    def __init__(self, network: OutsideNetwork, location: Location, url: str) -> None:
        self._network = network
        self._location = location
        self.name = shown(url)

    @asynccontextmanager
    async def open(self, start: int, previous: ObjectFacts | None) -> AsyncGenerator[OpenObject]:
        """Receive the file; see ObjectSource."""
        async with open_session(self._network, self._location) as session:
            facts = await self._facts(session)
            is_same = bool(facts.etag) and previous is not None and previous.etag == facts.etag
            begin = start if is_same else 0
            data = await session.open_data()
            try:
                if begin:
                    await session.ask(f"REST {begin}", "3")
                await session.ask(f"RETR {self._location.path}", "1")
                yield OpenObject(facts=facts, start=begin, pieces=self._pieces(session, data))
            finally:
                data.writer.transport.abort()

    async def _facts(self, session: FtpSession) -> ObjectFacts:
        try:
            size = (await session.ask(f"SIZE {self._location.path}", "2"))[4:].strip()
            changed = (await session.ask(f"MDTM {self._location.path}", "2"))[4:].strip()
        except Invalid:
            # A server that knows neither.
            return ObjectFacts()
        if not size.isascii() or not size.isdigit():
            return ObjectFacts()
        validator = f"{changed} {size}"
        return ObjectFacts(size=int(size), validator=validator, etag=validator)

    async def _pieces(self, session: FtpSession, data: Pipe) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(TIMEOUT):
                piece = await data.reader.read(_PIECE)
            if not piece:
                break
            yield piece
        # The server says whether the end of the connection is the end of the file.
        await session.expect("2")


class FtpTarget:
    """Implements FileTarget."""

    def __init__(self, network: OutsideNetwork, location: Location) -> None:
        self._network = network
        self._location = location

    async def send(self, file: OutgoingFile) -> str:
        """Send the file; see FileTarget."""
        folder, _, name = self._location.path.rpartition("/")
        mark = hashlib.sha256(file.key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        temporary = f"{folder}/.{name[:100]}.lading-{mark}"
        async with open_session(self._network, self._location) as session:
            await _make_directories(session, folder)
            try:
                checksum = await self._store(session, temporary, file)
                await session.ask(f"RNFR {temporary}", "3")
                await session.ask(f"RNTO {self._location.path}", "2")
            except LadingError:
                with suppress(LadingError, OSError, asyncio.IncompleteReadError):
                    await session.ask(f"DELE {temporary}", "2")
                raise
        return checksum

    async def _store(self, session: FtpSession, path: str, file: OutgoingFile) -> str:
        digest = hashlib.sha256()
        data = await session.open_data()
        try:
            await session.ask(f"STOR {path}", "1")
            async for piece in file.pieces():
                digest.update(piece)
                for start in range(0, len(piece), _PIECE):
                    data.writer.write(piece[start : start + _PIECE])
                    async with asyncio.timeout(TIMEOUT):
                        await data.writer.drain()
            await data.close()
        finally:
            data.writer.transport.abort()
        await session.expect("2")
        return f"sha256:{digest.hexdigest()}"


async def _make_directories(session: FtpSession, folder: str) -> None:
    made = ""
    for name in [element for element in folder.split("/") if element]:
        made = f"{made}/{name}"
        # It is there already, or the file cannot be stored.
        with suppress(NotFound, Invalid):
            await session.ask(f"MKD {made}", "2")
