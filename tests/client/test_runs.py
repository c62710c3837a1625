"""Runs, their outputs, and many at once, on the API's own application."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import lading
from lading.client.runs import follow
from lading.client.transport import HttpTransport, WebSocket
from lading.core.errors import Invalid
from tests.cli.site import Play, Site


def test_a_failure_carries_code_and_log(stage: Site, site: lading.Site, image: str) -> None:
    with stage.acting(Play(stderr=b"first\nlast\n", exit_code=4, files={"log": b"why"})):
        run = site.run(["plot"], image=image)
        with pytest.raises(lading.RunFailed) as failed:
            run.result(30)
    assert (failed.value.exit_code, failed.value.log) == (4, "first\nlast")
    with pytest.raises(lading.RunFailed):
        run.output["log"].read_text()
    assert list(run.leftovers) == ["log"]
    assert run.leftovers["log"].read_text() == "why"
    assert (run.state, repr(run)) == ("failed 4", "<run plot failed 4>")


def test_a_wait_that_is_given_up_leaves_the_run(stage: Site, site: lading.Site, image: str) -> None:
    async def hurry(run: lading.Run) -> None:
        async with asyncio.timeout(0.01):
            await run

    run = site.run(["slow"], image=image)
    with pytest.raises(TimeoutError):
        asyncio.run(hurry(run))
    run.cancel()
    assert isinstance(run.exception(30), lading.RunFailed)


class SlowFarewell(HttpTransport):
    """Its websockets close only when they are let go."""

    def __init__(self, socket: Path) -> None:
        super().__init__(unix_socket=socket)
        self.is_closing, self.let_go = threading.Event(), threading.Event()

    @asynccontextmanager
    async def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = 30
    ) -> AsyncIterator[WebSocket]:
        async with super().websocket(path, headers=headers, timeout=timeout) as socket:
            try:
                yield socket
            finally:
                self.is_closing.set()
                await asyncio.to_thread(self.let_go.wait)


def test_a_run_that_starts_while_a_watch_ends_is_seen(stage: Site, image: str) -> None:
    transport = SlowFarewell(stage.socket)
    with lading.Site(transport, stage.world.admin) as site, stage.acting(Play(), Play()):
        site.run(["first"], image=image).result(30)
        assert transport.is_closing.wait(30)
        try:
            # It has a connection of its own.
            site.run(["second"], image=image).result(30)
        finally:
            transport.let_go.set()


def test_two_handles_of_a_request_both_see_its_end(
    stage: Site, site: lading.Site, image: str
) -> None:
    with stage.acting(Play()):
        run = site.run(["twice"], image=image)
        other = site.request(run.uuid)
        assert not other.done()
        assert run.result(30).uuid == other.result(30).uuid


def test_a_program_that_leaves_while_it_waits_ends(stage: Site, image: str) -> None:
    script = (
        "import sys, lading\n"
        "from lading.client.transport import HttpTransport\n"
        "site = lading.Site(HttpTransport(unix_socket=sys.argv[1]), sys.argv[2])\n"
        "run = site.run(['left'], image=sys.argv[3])\n"
        "assert not run.done() and run.uuid\n"
    )
    words = [sys.executable, "-c", script, str(stage.socket), stage.world.admin, image]
    assert subprocess.run(words, check=False, timeout=60).returncode == 0


def test_a_message_cannot_control_the_terminal(stage: Site, site: lading.Site, image: str) -> None:
    with stage.acting(Play(stderr=b"a\tb\x1b[2J\n", exit_code=1)):
        error = site.run(["hostile"], image=image).exception(30)
    assert isinstance(error, lading.RunFailed)
    assert str(error).endswith("\n  a\tb\\x1b[2J")
    assert error.log == "a\tb\x1b[2J"


async def test_follow_does_not_cancel() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    task = asyncio.create_task(follow(future))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not future.cancelled()


def test_runs_are_shown_as_a_table(stage: Site, site: lading.Site, image: str) -> None:
    with stage.acting(Play(), Play(exit_code=3)):
        runs = site.map(["echo", "<b>{}</b>"], ["x", "y"], image=image, name="<i>")
        with pytest.raises(lading.RunFailed, match="exit code 3"):
            runs.result(30)
    assert repr(runs) == "<2 runs: 1 succeeded, 1 failed>"
    assert repr(runs.failed) == "<1 runs: 1 failed>"
    shown = runs.to_html()
    assert "<i>" not in shown
    # What failed comes first.
    assert shown.index("&lt;i&gt;.1</td><td>failed 3") < shown.index("&lt;i&gt;.0</td><td>succ")
    assert runs[0].uuid in shown


def test_a_long_table_is_cut(site: lading.Site) -> None:
    runs = site.map(["x", "{}"], range(25), image="no/such:image")
    runs.wait(30)
    assert "25 runs: 25 refused" in runs.to_html()
    assert runs.to_html().count("<tr") == 21
    assert "and 5 more" in runs.to_html()


def test_runs_are_awaited_and_cancelled(stage: Site, site: lading.Site, image: str) -> None:
    async def wait(runs: lading.Runs) -> lading.Runs:
        return await runs

    with stage.acting(Play(), Play()):
        runs = site.map(["await", "{}"], range(2), image=image)
        assert asyncio.run(wait(runs)) is runs
    waiting = site.map(["never", "{}"], range(2), image=image)
    with pytest.raises(TimeoutError, match="have not ended"):
        waiting.wait(0.01)
    waiting.cancel()
    assert waiting.wait(30).failed == waiting


def test_a_future_takes_what_was_decided_first(site: lading.Site, image: str) -> None:
    async def value() -> int:
        return 1

    run = site.run(["held"], image=image)
    future = lading.RunFuture[int](run)
    told: list[concurrent.futures.Future[int]] = []
    future.add_done_callback(told.append)
    assert future.cancel()
    assert not future.running()
    asyncio.run(future.settle(value()))
    assert future.cancelled()
    assert told == [future]
    assert isinstance(run.exception(30), lading.RunFailed)
    assert future.cancel()


def test_a_closed_site_ends_its_futures(connecting: Callable[[], lading.Site], image: str) -> None:
    with lading.Executor(connecting(), image=image) as executor:
        future = executor.submit(["unseen"])
        run = future.run
        executor.site.close()
    assert future.cancelled()
    assert run.state == "submitted"


def test_refused(site: lading.Site) -> None:
    run = site.run(["x"], image="no/such:image")
    assert isinstance(run.exception(30), Invalid)
    assert run.state == "refused"
