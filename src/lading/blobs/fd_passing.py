"""Passes open files of blocks to readers on this machine, instead of the bytes.

    request    {"token": "...", "locator": "<signed locator>"}
    answer     {"status": 200} and a descriptor, for reading only
               {"status": <as over HTTP>, "error": "..."}; also if no volume can pass a file; then
               the reader uses HTTP

One request on each connection, one packet of `net.rpc` each way (`client.fd_receiving` is the other
side). Token and signature are checked as over HTTP. The bytes are not: the reader hashes them and
requests a damaged block over HTTP. Only root and the user of the server are answered: the receiver
of a descriptor can reopen the file for writing if the file system permits, and it permits only
these two.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

import msgspec

from lading.blobs.app import CheckToken
from lading.blobs.metrics import BlockMetrics
from lading.blobs.volume import Loan
from lading.blobs.volume_set import VolumeSet
from lading.config.site import Config
from lading.core.data import locator as locators
from lading.core.errors import LadingError, Malformed, TooLarge, Unauthenticated
from lading.net import rpc
from lading.process.telemetry import event

# Bytes of the longest request; a signed locator and a token are far shorter.
_MOST: Final = 1 << 16
# Connections that are answered at a time.
_AT_ONCE: Final = 64
# Seconds for a request; after that the connection is closed.
_TIMEOUT: Final = 10.0
# Seconds before the next attempt to accept, so that a lasting error does not fill the processor and
# the log.
_PAUSE: Final = 0.1
# struct ucred of unix(7): process, user and group id.
_CREDENTIALS: Final = struct.Struct("3i")
_logger = logging.getLogger("lading.blobs")


class BlockFileRequest(msgspec.Struct):
    """A request for the file of a block."""

    token: str
    locator: str


class FdPasser:
    """Passes files of blocks of these volumes; `clock` returns Unix seconds."""

    def __init__(
        self,
        mounts: VolumeSet,
        config: Config,
        *,
        clock: Callable[[], float],
        check_token: CheckToken,
        metrics: BlockMetrics | None = None,
        timeout: float = _TIMEOUT,
        pause: float = _PAUSE,
    ) -> None:
        self._timeout, self._pause = timeout, pause
        settings = config.Collections
        self._mounts = mounts
        self._key = settings.BlobSigningKey if settings.BlobSigning else ""
        self._ttl = int(settings.BlobSigningTTL)
        self._clock = clock
        self._check_token = check_token
        self._metrics = metrics or BlockMetrics()

    async def serve(self, listening: socket.socket) -> None:
        """Serve connections of a listening socket until cancelled."""
        loop, turns = asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE)
        listening.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            while True:
                # Acquired before accept: beyond the limit, clients wait in the backlog of the
                # socket.
                await turns.acquire()
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:
                    # No file descriptor is left, or the client has disconnected.
                    turns.release()
                    event(_logger, "reader not served", fault=error)
                    await asyncio.sleep(self._pause)
                    continue
                answering = tasks.create_task(self._answer(connection), name="lend a block")
                answering.add_done_callback(lambda _: turns.release())

    async def open(self, request: BlockFileRequest) -> Loan:
        """The open file of a block.

        Raises Unauthenticated, Malformed (a forged signature), NotFound when no volume can pass it,
        Corrupt, Unavailable.
        """
        locator = locators.parse(request.locator)
        if not request.token:
            raise Unauthenticated("no token")
        await self._check_token(request.token, writing=False)
        if self._key:
            locators.verify(
                str(locator),
                token=request.token,
                ttl=self._ttl,
                key=self._key,
                now=int(self._clock()),
            )
        loan = await self._mounts.lend(locator.hash)
        self._metrics.note_read(locator.size or 0, as_file=True)
        return loan

    async def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.setblocking(False)
                # The docstring of the module gives the reason for these two.
                if peer_of(connection) not in (0, os.geteuid()):
                    return
                async with asyncio.timeout(self._timeout):
                    asked = await rpc.wait_packet(connection, limit=_MOST)
                    await self._lend(connection, asked.data)
            except (OSError, TooLarge) as error:
                # The client has disconnected, sends nothing or too much.
                event(_logger, "block not lent", fault=error)

    async def _lend(self, connection: socket.socket, asked: bytes) -> None:
        try:
            wanted = rpc.decode(asked, BlockFileRequest)
        except Malformed:
            rpc.send_packet(connection, {"status": 400, "error": "not a request for a block"})
            return
        try:
            loan = await self.open(wanted)
        except LadingError as error:
            rpc.send_packet(connection, {"status": error.status, "error": error.message})
            return
        try:
            rpc.send_packet(connection, {"status": 200}, (loan.descriptor,))
        finally:
            loan.close()


def peer_of(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])
