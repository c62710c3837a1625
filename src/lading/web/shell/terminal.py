"""A terminal in a container: an SSH client on a connection that the API has opened.

The server has checked the caller and the container's gateway; the SSH server in the gateway asks
for nothing more (docs/spec/shell, section SSH server).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import asyncssh

from lading.core.errors import Unavailable
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe, join
from lading.process.concurrency import cancel_all

_KIND: Final = "xterm-256color"
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "COLORTERM": "truecolor"}
# Ciphers with hardware support; the data is inside TLS already.
_CIPHERS: Final = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "aes128-ctr"]
_WINDOW: Final = 1 << 18
"""Bytes that the container may send before they are read here."""
_PIECE: Final = 1 << 15
_LOGIN_SECONDS: Final = 30
_END_SECONDS: Final = 2.0
"""Seconds for the exit code after the last output."""


class ContainerTerminal:
    """A login shell with a terminal; `read` and `write` carry its bytes."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._process = process

    async def read(self) -> bytes:
        """The next output; b"" when the shell has ended."""
        try:
            return await self._process.stdout.read(_PIECE)
        except (OSError, asyncssh.Error):
            return b""

    async def write(self, typed: bytes) -> None:
        """Pass typed bytes on; waits while the shell does not read."""
        # The shell may have ended.
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write(typed)
            await self._process.stdin.drain()

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell the size of the window."""
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.change_terminal_size(columns, rows)

    async def ending(self) -> str:
        """Description of the end of the shell, in one sentence."""
        with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait_closed()
        code, killed = self._process.exit_status, self._process.exit_signal
        if killed is not None:
            return f"The shell was ended by the signal {killed[0]}."
        if code is None or code < 0:
            return "The connection to the container has ended."
        return f"The shell has ended with exit code {code}."


@asynccontextmanager
async def open_terminal(
    pipe: Pipe, *, login: str, columns: int, rows: int
) -> AsyncGenerator[ContainerTerminal]:
    """A terminal over `pipe`, which is closed at the end. Raises Unavailable."""
    with contextlib.ExitStack() as undo:
        # asyncssh needs a socket, but the connection is a pipe: a socket pair joins the two.
        ours, theirs = (undo.enter_context(end) for end in socket.socketpair())
        near = Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))
        undo.pop_all()
    carrying = asyncio.create_task(join(pipe, near), name="bytes of a terminal")
    try:
        async with contextlib.AsyncExitStack() as opened:
            try:
                connection = await opened.enter_async_context(_connected(ours, login))
                process = await opened.enter_async_context(
                    connection.create_process(
                        term_type=_KIND,
                        term_size=(columns, rows),
                        env=_ENVIRONMENT,
                        encoding=None,
                        stderr=asyncssh.STDOUT,
                        window=_WINDOW,
                    )
                )
            except (OSError, asyncssh.Error) as error:
                raise Unavailable(f"no terminal could be opened: {error}") from error
            yield ContainerTerminal(process)
    finally:
        await cancel_all(carrying)
        ours.close()


def _connected(
    ours: socket.socket, login: str
) -> contextlib.AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    return asyncssh.connect(
        "container",
        sock=ours,
        # The container's key is new for each gateway; the API has verified the gateway instead.
        known_hosts=None,
        username=login,
        client_keys=None,
        agent_path=None,
        config=None,
        encryption_algs=_CIPHERS,
        compression_algs=["none"],
        login_timeout=_LOGIN_SECONDS,
    )
