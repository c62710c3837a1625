"""A terminal over a connection to a gateway."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe
from lading.supervisor.container_gateway.shell import ShellServer
from lading.web.shell.terminal import ContainerTerminal, open_terminal
from tests.supervisor.container_gateway.entering import stub_running


async def _pipes() -> tuple[Pipe, Pipe]:
    ours, theirs = socket.socketpair()
    return (
        Pipe(*await asyncio.open_connection(sock=ours, limit=LIMIT)),
        Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT)),
    )


@asynccontextmanager
async def _terminal(directory: Path) -> AsyncIterator[ContainerTerminal]:
    async with stub_running(directory) as engine:
        ours, theirs = await _pipes()
        serving = asyncio.create_task(ShellServer(engine).serve(theirs, ""))
        async with open_terminal(ours, login="root", columns=77, rows=11) as terminal:
            yield terminal
        await serving
        await theirs.close()


async def _until(terminal: ContainerTerminal, text: bytes) -> None:
    said = b""
    while text not in said:
        data = await terminal.read()
        assert data, said
        said += data


async def test_a_shell_and_its_end(tmp_path: Path) -> None:
    async with _terminal(tmp_path) as terminal:
        await terminal.write(b"stty size; echo $TERM; kill -TERM $$; exit 3\r")
        await _until(terminal, b"11 77")
        terminal.resize(60, 20)
        while await terminal.read():
            pass
        assert "ended" in await terminal.ending()
        # There is nobody left to read them.
        await terminal.write(b"late")
        terminal.resize(1, 1)


async def test_a_gateway_that_hangs_up(tmp_path: Path) -> None:
    ours, theirs = await _pipes()
    await theirs.close()
    with pytest.raises(Unavailable, match="no terminal could be opened"):
        async with open_terminal(ours, login="root", columns=80, rows=24):
            pass
