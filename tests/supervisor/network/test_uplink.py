from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.network.uplink import (
    PASTA,
    SLIRP4NETNS,
    Attachment,
    Uplink,
    UplinkProgram,
    usable_programs,
)

_CONNECTED = "echo 1 >/proc/self/fd/{ready}; exec sleep 60"
_FAILS = "echo 'Failed to send 5 bytes to syslog'; echo 'no   tun'; exit 3"


def program(script: str, *, name: str = "sh") -> UplinkProgram:
    """A program that runs a script of the shell."""
    return UplinkProgram(
        name, "dash", lambda attachment: ["sh", "-c", script.format(ready=attachment.ready)]
    )


@asynccontextmanager
async def uplink(
    directory: Path,
    *programs: UplinkProgram,
    on_fault: Callable[[str], None] = lambda sentence: None,
    timeout: float = 10.0,
) -> AsyncIterator[Uplink]:
    descriptor = os.open("/proc/self/ns/net", os.O_RDONLY)
    connection = Uplink(
        descriptor, directory / "log", programs=programs, on_fault=on_fault, timeout=timeout
    )
    try:
        yield connection
    finally:
        await connection.close()
        os.close(descriptor)


def test_an_ordinary_user_prefers_pasta_and_root_cannot_use_it() -> None:
    assert usable_programs(is_root=False) == (PASTA, SLIRP4NETNS)
    assert usable_programs(is_root=True) == (SLIRP4NETNS,)


@pytest.mark.parametrize("ipv6", [True, False])
def test_no_program_leads_to_the_loopback_of_the_machine(ipv6: bool) -> None:
    attachment = Attachment(3, 4, 5, ipv6)
    assert "--disable-host-loopback" in SLIRP4NETNS.command(attachment)
    command = PASTA.command(attachment)
    assert "--no-map-gw" in command
    for option in ("--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"):
        assert command[command.index(option) + 1] == "none"
    assert ("--ipv4-only" in command) is not ipv6
    assert ("fd00::100" in command) is ipv6


async def test_the_first_installed_program_connects(tmp_path: Path) -> None:
    programs = (program("exit 1", name="no-such-program"), program(_CONNECTED))
    async with uplink(tmp_path, *programs) as connection:
        await connection.open()
        process = connection.process
        assert process is not None
        code = process.returncode
        assert code is None
    assert process.returncode == -15
    assert connection.process is None


async def test_a_program_that_fails_is_told_and_the_next_one_is_used(tmp_path: Path) -> None:
    faults: list[str] = []
    programs = (program(_FAILS), program(_CONNECTED, name="sleep"))
    async with uplink(tmp_path, *programs, on_fault=faults.append) as connection:
        await connection.open()
        assert connection.process is not None
    assert faults == ["sh cannot join the container: no tun; trying sleep"]


async def test_the_last_program_that_fails_is_the_fault(tmp_path: Path) -> None:
    async with uplink(tmp_path, program(_FAILS)) as connection:
        with pytest.raises(ExecutionError, match="^sh cannot join the container: no tun$") as error:
            await connection.open()
    assert error.value.failure is Failure.NODE


async def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    async with uplink(tmp_path, program("exec sleep 60"), timeout=0.1) as connection:
        with pytest.raises(ExecutionError, match="does not join the container in time"):
            await connection.open()
        process = connection.process
    assert process is not None
    assert process.returncode is not None


async def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = program("trap '' TERM; echo 1 >/proc/self/fd/{ready}; sleep 60")
    async with uplink(tmp_path, stubborn, timeout=1.0) as connection:
        await connection.open()
        process = connection.process
    assert process is not None
    assert process.returncode == -9


async def test_a_program_that_does_not_end_is_killed_by_a_cancelled_task_too(
    tmp_path: Path,
) -> None:
    stubborn = program("trap '' TERM; echo 1 >/proc/self/fd/{ready}; sleep 60")
    connected = asyncio.Event()
    processes = []

    async def supervise() -> None:
        async with uplink(tmp_path, stubborn, timeout=1.0) as connection:
            await connection.open()
            processes.append(connection.process)
            connected.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(supervise())
    await connected.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (process,) = processes
    assert process is not None
    assert process.returncode == -9


async def test_a_missing_program_is_told_with_its_package(tmp_path: Path) -> None:
    async with uplink(tmp_path, program("", name="no-such-program")) as connection:
        with pytest.raises(ExecutionError, match="no-such-program, .* install the package dash"):
            await connection.open()


async def test_the_death_of_the_program_is_told(tmp_path: Path) -> None:
    faults: asyncio.Queue[str] = asyncio.Queue()
    async with uplink(tmp_path, program(_CONNECTED), on_fault=faults.put_nowait) as connection:
        await connection.open()
        assert connection.process is not None
        connection.process.kill()
        fault = await asyncio.wait_for(faults.get(), 10)
    assert fault == (
        "the container has no internet any more: sh, which connects it, has ended (signal 9);"
        " run it again"
    )
    assert faults.empty()


async def test_an_end_that_was_asked_for_is_no_fault(tmp_path: Path) -> None:
    faults: list[str] = []
    async with uplink(tmp_path, program(_CONNECTED), on_fault=faults.append) as connection:
        await connection.open()
    assert faults == []


def test_pasta_ends_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    pasta = tmp_path / "pasta"
    pasta.write_text("#!/bin/sh\nexec sleep 60\n")
    pasta.chmod(0o755)
    script = (
        "import subprocess, time\n"
        "from lading.supervisor.network.uplink import PASTA, Attachment\n"
        "subprocess.Popen(PASTA.command(Attachment(0, 1, 2, False)))\n"
        "time.sleep(60)\n"
    )
    # The pipe ends with the last process that has it.
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
    ) as supervisor:
        children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
        while not (pid := children.read_text().strip()) or _name(pid) != "sleep":
            assert supervisor.poll() is None
        supervisor.kill()
        assert supervisor.stdout is not None
        assert supervisor.stdout.read() == b""


def _name(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
