"""Blocks from a server on this machine, as open files that are passed over a socket.

Over HTTP the bytes would be copied four times. The socket is beside the API socket of the server
(`lent_beside`), accessible to its user and root only; `blobs.fd_passing` documents the messages.
After any failure the block is fetched over HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec

from lading.core.errors import LadingError, Malformed, Unavailable, from_status
from lading.net import rpc

# Bytes of the longest answer; an error text is far shorter.
_MOST = 1 << 16
# Seconds for connecting, and for each message.
_TIMEOUT = 15.0
# struct ucred of unix(7): process, user and group id.
_CREDENTIALS = struct.Struct("3i")
_logger = logging.getLogger("lading.borrowing")


class _Answer(msgspec.Struct):
    status: int
    error: str = ""


def lent_beside(api_socket: str | Path) -> Path:
    """The socket on which a server lends blocks whose API socket is `api_socket`."""
    return Path(api_socket).with_suffix(".lend")


class FdReceiver:
    """Borrows blocks with one token."""

    def __init__(
        self, path: Path, token: str, *, trusted: Callable[[], tuple[int, ...]] | None = None
    ) -> None:
        """`trusted`: users whose socket it may be, root and this one if not given."""
        self._trusted = trusted or _trusted
        self._path = path
        self._token = token
        self._is_told = False

    async def __call__(self, locator: str) -> int | None:
        """A descriptor of a file that should be the block, not verified, for the caller to close;
        None if there is none.
        """
        borrowing = asyncio.create_task(asyncio.to_thread(self.borrow, locator))
        try:
            # Shielded: after a cancellation the thread continues, and its descriptor must be
            # closed.
            return await asyncio.shield(borrowing)
        except asyncio.CancelledError:
            # The thread cannot be stopped: its descriptor is closed when it ends.
            borrowing.add_done_callback(_close_result)
            raise
        except (LadingError, OSError) as error:
            # Logged at level INFO once: a server whose blocks are elsewhere lends none, which is no
            # failure.
            level = logging.DEBUG if self._is_told else logging.INFO
            self._is_told = True
            _logger.log(level, "block=%s not lent, fetched: %s", locator[:32], error)
            return None

    def borrow(self, locator: str) -> int:
        """Blocking variant of `__call__`. Raises LadingError, OSError."""
        here = self._path.lstat()
        # Another user could put a socket there and pass files of its own, and would get the token.
        if not stat.S_ISSOCK(here.st_mode) or here.st_uid not in self._trusted():
            raise Unavailable(f"{self._path}: not a socket of this user's")
        with socket.socket(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        ) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(str(self._path))
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(found)[1] not in self._trusted():
                raise Unavailable(f"{self._path}: a server of another user answers there")
            rpc.send_packet(connection, {"token": self._token, "locator": locator})
            return _take(rpc.receive_packet(connection, limit=_MOST, descriptors=1))


def _trusted() -> tuple[int, int]:
    return 0, os.geteuid()


def _take(packet: rpc.Packet) -> int:
    taken = False
    try:
        try:
            answer = rpc.decode(packet.data, _Answer)
        except Malformed as error:
            raise Unavailable("the server hung up") from error
        if answer.status != 200:
            raise from_status(answer.status, answer.error)
        if not packet.descriptors:
            raise Unavailable("no file came with the answer")
        taken = True
        return packet.descriptors[0]
    finally:
        if not taken:
            packet.close()


def _close_result(borrowing: asyncio.Task[int]) -> None:
    if not borrowing.cancelled() and borrowing.exception() is None:
        os.close(borrowing.result())
