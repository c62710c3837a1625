"""Commands beside the container's own as child processes; what they do is in
src/lading/testing/conformance/engines.py.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Size
from lading.supervisor.engines.executing import Console, spawn, start_failure

PLAIN = {"PATH": "/usr/bin:/bin"}


async def test_a_runtime_that_is_not_there() -> None:
    with pytest.raises(ExecutionError, match="cannot be run") as caught:
        await spawn(["/no/such/runtime"], environment=PLAIN, target=lambda: None)
    assert caught.value.failure is Failure.NODE


async def test_a_runtime_that_makes_no_terminal_says_why(tmp_path: Path) -> None:
    console = Console(tmp_path, Size())
    with pytest.raises(ExecutionError, match="no such user") as caught:
        await spawn(
            ["sh", "-c", "echo no such user >&2; exit 1"],
            environment=PLAIN,
            target=lambda: None,
            console=console,
        )
    console.close()
    assert caught.value.failure is Failure.USER
    assert list(tmp_path.iterdir()) == []


async def test_a_runtime_that_sends_something_else(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    console = Console(deep, Size())
    process = await asyncio.create_subprocess_exec("sleep", "60")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(console.path)
        client.send(b"no descriptor")
        with pytest.raises(ExecutionError, match="made no terminal"):
            await console.receive(process)
    console.close()
    await process.wait()


async def test_a_runtime_sends_a_terminal_with_a_name(tmp_path: Path) -> None:
    console = Console(tmp_path, Size())
    process = await asyncio.create_subprocess_exec("sleep", "60")
    controlling, controlled = os.openpty()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(console.path)
        socket.send_fds(client, [b"/dev/ptmx"], [controlling])
        received = await console.receive(process)
    os.write(controlled, b"screen")
    assert os.read(received, 6) == b"screen"
    for descriptor in (controlling, controlled, received):
        os.close(descriptor)
    console.close()
    process.kill()
    await process.wait()


async def test_input_that_nobody_takes_is_dropped() -> None:
    execution = await spawn(["true"], environment=PLAIN, target=lambda: os.getpid() * 0 or None)
    assert await execution.wait() == 0
    await execution.write(b"x" * 100_000)
    await execution.write(b"")
    await execution.write(b"late")
    await execution.resize(Size())
    await execution.signal(15)
    await execution.close()


async def test_what_does_not_hear_hup_is_killed() -> None:
    execution = await spawn(["sleep", "60"], environment=PLAIN, target=lambda: None)
    await execution.close()
    assert await execution.wait() == 137


def test_no_reason() -> None:
    assert "no reason was given" in start_failure(b"").message
