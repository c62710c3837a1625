"""Callers who come before the command: the record of a container is Running a moment earlier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from lading.core.errors import Unavailable
from lading.supervisor.container_gateway.first_process import first_process
from lading.supervisor.engines import ContainerSpec, EngineSettings
from lading.testing.engine import StubEngine
from tests.supervisor.container_gateway.entering import CONTAINER, PATIENCE, gateway_of


class LateEngine(StubEngine):
    """A stub engine that tells when it was first asked for its first process."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self.asked = asyncio.Event()

    @property
    def first(self) -> int | None:
        """The command."""
        self.asked.set()
        return super().first


@asynccontextmanager
async def created(directory: Path) -> AsyncIterator[LateEngine]:
    """An engine whose command was not started yet."""
    engine = LateEngine(
        EngineSettings(
            container_uuid=CONTAINER, run_directory=str(directory), cache_directory=str(directory)
        )
    )
    await engine.create(ContainerSpec(command=("sleep", "60")))
    try:
        yield engine
    finally:
        await engine.remove()


async def test_a_session_that_comes_before_the_command_waits_for_it(tmp_path: Path) -> None:
    async with created(tmp_path) as engine, gateway_of(engine) as gateway, gateway.ssh() as ssh:
        stop = asyncio.Event()
        asked = asyncio.create_task(ssh.run("echo inside"))
        await asyncio.wait_for(engine.asked.wait(), PATIENCE)
        assert not asked.done()
        assert "execute" not in engine.calls
        running = asyncio.create_task(engine.run(stop=stop, stop_grace=0.1))
        done = await asyncio.wait_for(asked, PATIENCE)
        assert (done.stdout, done.exit_status) == ("inside\n", 0)
        stop.set()
        await running


async def test_a_port_that_is_asked_for_before_the_command_waits_for_it(tmp_path: Path) -> None:
    async with created(tmp_path) as engine, gateway_of(engine) as gateway, gateway.ssh() as ssh:
        stop = asyncio.Event()
        asked = asyncio.create_task(ssh.open_connection("localhost", 1))
        await asyncio.wait_for(engine.asked.wait(), PATIENCE)
        assert not asked.done()
        running = asyncio.create_task(engine.run(stop=stop, stop_grace=0.1))
        with pytest.raises(asyncssh.ChannelOpenError, match="nothing of this container listens"):
            await asyncio.wait_for(asked, PATIENCE)
        stop.set()
        await running


async def test_a_published_port_waits_too(tmp_path: Path) -> None:
    async with created(tmp_path) as engine, gateway_of(engine) as gateway:
        stop = asyncio.Event()
        port = {"X-Arvados-Container-Target-Port": "1"}
        asked = asyncio.create_task(gateway.ask("GET /", more=port))
        await asyncio.wait_for(engine.asked.wait(), PATIENCE)
        assert not asked.done()
        running = asyncio.create_task(engine.run(stop=stop, stop_grace=0.1))
        pipe, answer, _ = await asyncio.wait_for(asked, PATIENCE)
        assert answer.status == 422
        await pipe.close()
        stop.set()
        await running


async def test_a_container_that_never_runs_is_refused(tmp_path: Path) -> None:
    async with created(tmp_path) as engine:
        with pytest.raises(Unavailable, match="is not running; try again when it is"):
            await first_process(engine, patience=0)
