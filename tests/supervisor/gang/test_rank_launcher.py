"""An outpost and the lines that lead to it, on this machine; annexes are acted by shells."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from lading.net.certificates import make_certificate
from lading.supervisor import journal as run_journal
from lading.supervisor.engines import EngineSettings
from lading.supervisor.gang import rank_launcher
from lading.supervisor.gang.rank_launcher import LaunchOrder, RankLauncher
from lading.supervisor.gang.remote_rank_client import HandshakeState
from lading.supervisor.journal import CONTAINER_STEP, JournalHeader, RunJournal, StepMark
from lading.testing.supervising import CONTAINER

CERTIFICATE, KEY = make_certificate("gang", now=datetime.now(UTC))
ANNEX = ("sh", "-c", 'echo "hello $0"; cat; echo over')


def order(ranks: int = 1) -> LaunchOrder:
    return LaunchOrder(CONTAINER, ranks, CERTIFICATE, KEY)


class Line:
    """A line to an outpost, as the supervisor has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout


async def open_line(port: int, *, certificate: str = CERTIFICATE, key: str = KEY) -> Line:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "lading.supervisor", "--line")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    made = Line(process)
    course = HandshakeState(address="127.0.0.1", port=port, certificate=certificate, key=key)
    made.stdin.write(msgspec.json.encode(course) + b"\n")
    return made


async def test_each_line_has_an_annex_of_its_own_and_hears_all_that_it_says() -> None:
    with rank_launcher.listen() as listener:
        port = listener.getsockname()[1]
        serving = asyncio.create_task(RankLauncher(order(2), listener, command=ANNEX).serve())
        lines = [await open_line(port) for _ in range(2)]
        for number, one in enumerate(lines):
            one.stdin.write(f"told {number}\n".encode())
            assert await one.stdout.readline() == b"hello 127.0.0.1\n"
            assert await one.stdout.readline() == f"told {number}\n".encode()
        for one in lines:
            # The end of the pipe is the end of the annex, and nobody is there to hear more.
            one.stdin.close()
            await one.process.wait()
        await asyncio.wait_for(serving, 60)


async def test_the_end_of_an_annex_is_the_end_of_its_line() -> None:
    with rank_launcher.listen() as listener:
        command = ("sh", "-c", "read -r one; echo got $one; head -c 3000000 /dev/zero")
        serving = asyncio.create_task(RankLauncher(order(), listener, command=command).serve())
        one = await open_line(listener.getsockname()[1])
        one.stdin.write(b"end\n")
        assert len(await one.stdout.read()) == 3000000 + len("got end\n")
        assert await one.process.wait() == 0
        one.stdin.close()
        await asyncio.wait_for(serving, 60)


async def test_who_has_another_key_gets_nothing(tmp_path: Path) -> None:
    certificate, key = make_certificate("gang", now=datetime.now(UTC))
    with rank_launcher.listen() as listener:
        command = ("sh", "-c", f"touch {tmp_path}/started")
        serving = asyncio.create_task(RankLauncher(order(), listener, command=command).serve())
        stranger = await open_line(listener.getsockname()[1], certificate=certificate, key=key)
        assert "cannot be reached" in json.loads(await stranger.stdout.read())["fault"]
        assert await stranger.process.wait() == 1
        stranger.stdin.close()
        # One that takes the outpost for what it is, and cannot show the key, gets no further
        # either.
        half = await open_line(
            listener.getsockname()[1], certificate=CERTIFICATE + certificate, key=key
        )
        assert b"hello" not in await half.stdout.read()
        half.stdin.close()
        await half.process.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert list(tmp_path.iterdir()) == []


async def test_it_ends_when_nobody_comes() -> None:
    with rank_launcher.listen() as listener:
        await asyncio.wait_for(RankLauncher(order(), listener, patience=0.0).serve(), 60)


async def test_it_ends_its_annexes_when_it_is_told_to_end() -> None:
    with rank_launcher.listen() as listener:
        serving = asyncio.create_task(RankLauncher(order(), listener, command=ANNEX).serve())
        one = await open_line(listener.getsockname()[1])
        assert await one.stdout.readline() == b"hello 127.0.0.1\n"
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 60)
        await one.stdout.read()
        one.stdin.close()
        await one.process.wait()


async def test_an_annex_that_cannot_be_started_ends_its_line() -> None:
    with rank_launcher.listen() as listener:
        serving = asyncio.create_task(RankLauncher(order(), listener, command=("/none",)).serve())
        one = await open_line(listener.getsockname()[1])
        assert await one.stdout.read() == b""
        one.stdin.close()
        await one.process.wait()
        await asyncio.wait_for(serving, 60)


class Engine:
    """Remembers whose containers it has removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def make(self, _: str, settings: EngineSettings) -> Any:
        self.settings = settings
        return self

    async def remove(self) -> None:
        self.removed.append(self.settings.container_uuid)


async def test_what_was_killed_is_cleared_away(tmp_path: Path) -> None:
    run, engine = tmp_path / "run", Engine()
    directory = rank_launcher.place(run, CONTAINER)
    lock = run_journal.acquire_lock(directory)
    rank_launcher.write_down(directory, order(2))
    assert rank_launcher.look(run) == [{"uuid": CONTAINER, "ranks": 2}]
    with subprocess.Popen(["sleep", "60"], pass_fds=(lock,)) as holder:
        run_journal.write_holder(lock, run_journal.LockHolder(UUID=CONTAINER, PID=holder.pid))
        run_journal.release_lock(lock)
        left = tmp_path / "annex" / f"{CONTAINER}-1"
        left.mkdir(parents=True)
        settings = EngineSettings(
            container_uuid=left.name, run_directory=str(left), cache_directory="/c", cache_size=1
        )
        journal = RunJournal(left)
        journal.open(JournalHeader(engine="native", settings=settings))
        journal.write(CONTAINER_STEP, StepMark.BEGUN)
        for _ in range(2):
            await rank_launcher.clear(run, CONTAINER, engines=engine.make)
    assert engine.removed == [left.name]
    assert (list((tmp_path / "annex").iterdir()), rank_launcher.look(run)) == ([], [])
