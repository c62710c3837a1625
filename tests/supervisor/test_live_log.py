from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.supervisor.logs import Log
from lading.supervisor.monitors import LiveView
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN, FakeServer
from tests.supervisor.supervised import MOMENT, STAMP


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", lambda: MOMENT)
    yield log
    log.close()


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def lost() -> list[str]:
    return []


@pytest.fixture
def reconnected() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def view(server: FakeServer, log: Log, lost: list[str], reconnected: asyncio.Event) -> LiveView:
    api = ApiClient(AsgiTransport(server), SUPERVISOR_TOKEN, retry=NO_RETRY)
    return LiveView(
        api, CONTAINER, log, on_lost=lambda: lost.append("lost"), reconnected=reconnected
    )


async def test_only_what_is_new_is_posted(view: LiveView, server: FakeServer, log: Log) -> None:
    for text in (b"one\n", b"two\n"):
        log.stream("stdout.txt").write(text)
        await view.post()
        await view.post()
    assert server.live["stdout.txt"] == f"{STAMP} one\n{STAMP} two\n".encode()
    assert server.calls == ["POST live"] * 2


async def test_a_server_that_fails_is_asked_again(
    view: LiveView, server: FakeServer, log: Log
) -> None:
    server.faults = {"POST live": [503]}
    log.stream("stdout.txt").write(b"one\n")
    await view.post()
    await view.post()
    assert server.live["stdout.txt"] == f"{STAMP} one\n".encode()


@pytest.mark.parametrize(("status", "told"), [(404, []), (401, ["lost"])])
async def test_a_server_that_refuses_is_not(
    view: LiveView, server: FakeServer, log: Log, lost: list[str], status: int, told: list[str]
) -> None:
    server.faults = {"POST live": [status]}
    log.stream("stdout.txt").write(b"one\n")
    await view.run(period=0.0, size=1, first=0.0)
    assert (server.live, lost) == ({}, told)


async def test_much_output_is_posted_at_once(view: LiveView, server: FakeServer, log: Log) -> None:
    posted = asyncio.Queue[str]()
    server.on_call = posted.put_nowait
    task = asyncio.create_task(view.run(period=3600.0, size=10, first=0.0))
    log.stream("stdout.txt").write(b"a first line\n")
    log.grown.set()
    await posted.get()
    log.stream("stderr.txt").write(b"and another one\n")
    log.grown.set()
    await posted.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set(server.live) == {"stdout.txt", "stderr.txt"}


@pytest.mark.parametrize("turns", range(6))
async def test_it_ends_with_a_command_whose_last_line_comes_at_that_moment(
    view: LiveView, server: FakeServer, log: Log, turns: int
) -> None:
    posted = asyncio.Queue[str]()
    server.on_call = posted.put_nowait
    task = asyncio.create_task(view.run(period=3600.0, size=1000, first=0.0))
    log.stream("stdout.txt").write(b"a first line\n")
    await posted.get()
    log.stream("stdout.txt").write(b"a line that waits for more\n")
    log.grown.set()
    for _ in range(10):
        await asyncio.sleep(0)
    log.stream("stdout.txt").write(b"x" * 1000)
    log.grown.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait((task,), timeout=2)
    task.cancel()
    assert done


async def test_a_flood_is_posted_in_parts(view: LiveView, server: FakeServer, log: Log) -> None:
    view.largest_post = 10
    log.stream("stdout.txt").write(b"x" * 100)
    await view.post()
    assert len(server.live["stdout.txt"]) == 40
    task = asyncio.create_task(view.run(period=0.0, size=1, first=0.0))
    while len(server.live["stdout.txt"]) < log.size("stdout.txt"):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_file_that_is_too_long_is_left_out_and_the_others_are_not(
    view: LiveView, server: FakeServer, log: Log
) -> None:
    server.faults = {"POST live": [0, 413]}
    log.say("one")
    log.stream("stdout.txt").write(b"two\n")
    await view.post()
    log.say("three")
    await view.post()
    assert set(server.live) == {"crunch-run.txt"}
    assert server.calls.count("POST live") == 3


@pytest.mark.parametrize("kept", [b"", f"{STAMP} o".encode()])
async def test_a_server_that_lacks_the_beginning_is_posted_it(
    view: LiveView, server: FakeServer, log: Log, kept: bytes
) -> None:
    for name in ("stdout.txt", "stderr.txt"):
        log.stream(name).write(b"one\n")
    await view.post()
    whole = server.live["stdout.txt"]
    # Another server, which the supervisor was connected to before or never.
    server.live = {"stdout.txt": kept} if kept else {}
    log.stream("stdout.txt").write(b"two\n")
    for _ in range(2):
        await view.post()
    assert server.live == {
        "stdout.txt": whole + f"{STAMP} two\n".encode(), "stderr.txt": whole,
    }  # fmt: skip


async def test_a_silent_command_is_shown_by_the_server_that_is_connected_to_later(
    view: LiveView, server: FakeServer, log: Log, reconnected: asyncio.Event
) -> None:
    posted = asyncio.Queue[str]()
    server.on_call = posted.put_nowait
    task = asyncio.create_task(view.run(period=0.0, size=1, first=0.0))
    log.stream("stdout.txt").write(b"one\n")
    log.grown.set()
    await posted.get()
    whole, server.live = server.live, {}
    reconnected.set()
    log.grown.set()
    while server.live != whole:
        await posted.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_server_that_was_away_may_be_another_one(
    view: LiveView, server: FakeServer, log: Log
) -> None:
    log.stream("stdout.txt").write(b"one\n")
    log.stream("stderr.txt").write(b"one\n")
    await view.post()
    whole, server.live = dict(server.live), {}
    server.faults = {"POST live": [503]}
    log.stream("stderr.txt").write(b"two\n")
    for _ in range(3):
        await view.post()
    assert server.live["stdout.txt"] == whole["stdout.txt"]
