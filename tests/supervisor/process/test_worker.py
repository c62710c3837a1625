"""One process, one container after the other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from lading.core.errors import ExecutionError
from lading.supervisor import journal, linux
from lading.supervisor.process.worker import ASKING, DONE, FREE, PREPARING, Turn, serve, work
from lading.testing.asgi import serving
from lading.testing.engine import StubEngine
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench, open_files

PATIENCE = 180.0


@dataclass
class Place:
    """A worker in this process, and the parent's end of its connection."""

    bench: Bench
    connection: socket.socket
    task: asyncio.Task[int]
    api: str

    async def order(self, **changes: object) -> None:
        """Have it serve the container."""
        told = structs.replace(self.bench.assignment(), api_socket=self.api, **changes)
        lock = journal.acquire_lock(self.bench.run_directory)
        socket.send_fds(self.connection, [msgspec.json.encode(told)], [lock])
        os.close(lock)

    async def said(self) -> bytes:
        """What it says of the end, b"" when it has gone."""
        while (said := await self.hear()) == FREE:
            pass
        return said

    async def hear(self) -> bytes:
        """The next thing that it says."""
        async with asyncio.timeout(PATIENCE):
            return await asyncio.get_running_loop().sock_recv(self.connection, 100)

    async def end(self) -> int:
        """Close the connection; its exit code."""
        self.connection.close()
        async with asyncio.timeout(PATIENCE):
            return await self.task


@pytest.fixture
async def place(
    request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    # In a process of its own no task but the worker's is there, and it is small.
    monkeypatch.setattr(asyncio, "all_tasks", lambda: {asyncio.current_task()})
    large = getattr(request, "param", 1 << 40)
    address = Path("/tmp") / f"lading-worker-{os.getpid()}.sock"
    async with serving(bench.server, uds=str(address)):
        with theirs:
            engines = lambda name, settings: StubEngine(settings)  # noqa: E731
            task = asyncio.create_task(serve(theirs, engines, large=large))
            yield Place(bench, ours, task, str(address))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        ours.close()
    address.unlink(missing_ok=True)


async def test_one_container_after_the_other(place: Place) -> None:
    counts = []
    for _ in range(3):
        record = place.bench.add("echo hello > $OUT/file", environment={"OUT": "/out"})
        await place.order()
        assert await place.said() == DONE
        assert record["state"] == "Complete"
        assert place.bench.output() == {"file": b"hello\n"}
        assert not place.bench.run_directory.exists()
        assert not journal.is_held(place.bench.run_directory)
        counts.append(open_files())
    assert counts[1] == counts[2]
    assert await place.end() == 0


async def test_the_end_of_the_command_is_told_before_its_results_are_saved(place: Place) -> None:
    place.bench.add("true")
    await place.order()
    assert await place.hear() == FREE
    assert await place.hear() == DONE
    place.bench.add("true", state="Complete")
    await place.order()
    assert await place.hear() == DONE


async def test_a_signal_is_for_the_container_of_its_time(place: Place) -> None:
    place.bench.add("true")
    await place.order()
    assert await place.said() == DONE
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)
    record = place.bench.add("true")
    await place.order()
    assert await place.said() == DONE
    assert record["state"] == "Complete"
    place.bench.server.on_call = lambda name: (
        os.kill(os.getpid(), signal.SIGTERM) if name == "GET auth" else None
    )
    record = place.bench.add("sleep 30")
    await place.order()
    assert await place.said() == DONE
    assert record["state"] in ("Queued", "Cancelled")


async def test_a_run_directory_that_stays_ends_the_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "busy")

    monkeypatch.setattr(linux, "discard_directory", refuse)
    place.bench.add("true")
    await place.order()
    async with asyncio.timeout(PATIENCE):
        assert await place.task == 0
    assert journal.read_holder(place.bench.run_directory) == journal.LockHolder(
        UUID=CONTAINER, PID=os.getpid()
    )


async def test_a_task_that_is_left_over_ends_the_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "all_tasks", lambda: {asyncio.current_task(), None})
    place.bench.add("true")
    await place.order()
    async with asyncio.timeout(PATIENCE):
        assert await place.task == 0


@pytest.mark.parametrize("place", [1], indirect=True, ids=["large"])
async def test_a_process_that_has_grown_is_not_used_again(place: Place) -> None:
    place.bench.add("true")
    await place.order()
    async with asyncio.timeout(PATIENCE):
        assert await place.task == 0


async def test_another_server_is_another_connection(place: Place) -> None:
    place.bench.add("true")
    await place.order()
    assert await place.said() == DONE
    record = place.bench.add("true", state="Complete")
    await place.order(api_url="http://elsewhere")
    assert await place.said() == DONE
    assert record["state"] == "Complete"


async def test_what_is_no_assignment_ends_the_process(place: Place) -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(place.connection, [b"{}"], [descriptor])
    os.close(descriptor)
    async with asyncio.timeout(PATIENCE):
        assert await place.task == 1


def test_the_process_leaves_the_mount_namespace_and_ends_with_its_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left: list[Path] = []
    monkeypatch.setattr(linux, "leave_mount_namespace", left.append)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        assert work(theirs, tmp_path, engines=lambda name, settings: StubEngine(settings)) == 0
    assert left == [tmp_path]


class Listener:
    """Hears what a container says, and lets it go on when told to."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.heard: list[bytes] = []
        self.go = asyncio.Event()
        self._is_there = is_there

    def say(self, word: bytes) -> bool:
        self.heard.append(word)
        return self._is_there

    def turn(self, *, patience: float = 0.0) -> Turn:
        async def wait() -> None:
            await self.go.wait()

        return Turn(self.say, wait, patience=patience)


async def long() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_prepares_quickly_says_nothing() -> None:
    listener = Listener()
    await listener.turn(patience=60.0).prepare(asyncio.sleep(0))
    assert listener.heard == []


async def test_who_takes_long_asks_and_waits() -> None:
    listener = Listener()
    task = asyncio.create_task(listener.turn().prepare(long()))
    while listener.heard != [PREPARING, ASKING]:
        await asyncio.sleep(0)
    assert not task.done()
    listener.go.set()
    await task


async def test_where_nobody_listens_it_goes_on() -> None:
    listener = Listener(is_there=False)
    await listener.turn().prepare(long())
    assert listener.heard == [PREPARING]


async def test_what_fails_does_not_ask() -> None:
    async def fail() -> None:
        await long()
        raise ExecutionError("no image")

    listener = Listener()
    with pytest.raises(ExecutionError, match="no image"):
        await listener.turn().prepare(fail())
    assert listener.heard == [PREPARING]
