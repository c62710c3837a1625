"""An engine whose commands are functions of this process, and a site of many containers with it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.core.errors import ExecutionError
from lading.process.concurrency import cancel_all
from lading.supervisor.engines import (
    ContainerSpec,
    Engine,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    ImageSource,
)
from lading.supervisor.lifecycle.driver import supervise
from lading.supervisor.lifecycle.run import Controls
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer
from tests.supervisor.supervised import MOMENT


@dataclass(slots=True)
class Inside:
    """What a command sees."""

    spec: ContainerSpec
    stdout: int
    is_ended: threading.Event = field(default_factory=threading.Event)
    """Set when it has to end."""

    def path(self, target: str) -> Path:
        """The directory of a mount."""
        return next(Path(bind.source) for bind in self.spec.binds if bind.target == target)

    def say(self, text: str) -> None:
        """Write to standard output."""
        os.write(self.stdout, text.encode())


Command = Callable[[Inside], int]
"""Runs in a thread; the exit code."""


class CommandEngine:
    """Implements lading.supervisor.engines.Engine: a thread for each command."""

    sees_private_mounts = False

    def __init__(self, command: Command) -> None:
        self.notes: list[str] = []
        self.pid: int | None = None
        self.first: int | None = None
        self.is_stopped = False
        self._command = command
        self._inside: Inside | None = None

    async def check(self) -> str:
        """Succeed."""
        return "threads"

    async def prepare(self, image: ImageSource) -> None:
        """Nothing to do."""

    async def create(self, spec: ContainerSpec) -> None:
        """Keep the specification."""
        self._inside = Inside(spec, os.dup(spec.stdout))

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Run the command."""
        inside = self._inside
        assert inside is not None
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        codes: list[int] = []

        def work() -> None:
            codes.append(self._command(inside))
            os.close(inside.stdout)
            loop.call_soon_threadsafe(ended.set)

        # Not of the loop's pool: a command needs no thread of the life cycle.
        threading.Thread(target=work, daemon=True).start()
        stopper = asyncio.create_task(self._stop_when(stop, inside), name="stopper")
        try:
            await ended.wait()
        finally:
            await cancel_all(stopper)
        return Exit(code=codes[0])

    async def abort(self) -> None:
        """End the command."""
        self.end()

    async def execute(self, order: Exec) -> Execution:
        """Refused."""
        raise ExecutionError(f"nothing can be run beside it: {order.command[0]}")

    async def hold(self) -> None:
        """Nothing to do."""

    async def kill(self) -> None:
        """Nothing is left of a command that has returned."""

    async def remove(self) -> None:
        """End the command."""
        self.end()

    def end(self) -> None:
        """Let the command return."""
        if self._inside is not None:
            self._inside.is_ended.set()

    async def _stop_when(self, stop: asyncio.Event, inside: Inside) -> None:
        await stop.wait()
        self.is_stopped = True
        inside.is_ended.set()


@dataclass
class Machine:
    """Many containers, driven in the event loop of the test."""

    directory: Path
    server: FakeServer = field(default_factory=lambda: FakeServer(own_tokens=True))
    controls: dict[str, Controls] = field(default_factory=dict)
    engines: dict[str, CommandEngine] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def add(self, number: int, command: Command, **changes: Any) -> str:
        """A container that runs a function; its uuid."""
        uuid = f"zzzzz-dz642-{number:015d}"
        image = self.server.add_collection({"sha256:0.tar": b"an image"})
        self.server.add_container(uuid, **{"container_image": image, **changes})
        self.controls[uuid], self.engines[uuid] = Controls(), CommandEngine(command)
        return uuid

    async def run(self, uuid: str) -> int:
        """Drive one container to its end."""
        run_directory = self.directory / "run" / uuid
        run_directory.mkdir(parents=True)
        config = SupervisorConfig(
            container_uuid=uuid,
            supervisor_token=self.server.supervisor_token(uuid),
            run_directory=str(run_directory),
            cache_directory=str(self.directory / "cache"),
            api_socket="unused",
            api_host="host:1",
            unreachable_timeout=0.0,
            **self.settings,
        )
        return await supervise(
            config,
            clock=lambda: MOMENT,
            transport=AsgiTransport(self.server),
            engines=self._make_engine,
            controls=self.controls[uuid],
        )

    def _make_engine(self, name: str, settings: EngineSettings) -> Engine:
        del name
        return self.engines[settings.container_uuid]

    def files(self, uuid: str, name: str) -> dict[str, bytes]:
        """The saved `output` or `log` of a container."""
        return self.server.files(self.server.containers[uuid][name])
