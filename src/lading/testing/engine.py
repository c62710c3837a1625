"""A container engine for tests: the command runs as a plain process, without isolation.

Where the command or its environment names the target of a bind, it gets the source instead.
`faults` makes a method raise; all calls are in `calls`, and `started` is set when the command runs.
"""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import Mapping

from lading.core.errors import ExecutionError, Failure, LadingError
from lading.process.concurrency import cancel_all
from lading.supervisor.engines import ContainerSpec, EngineSettings, Exec, Exit, ImageSource
from lading.supervisor.engines.executing import ProcessExecution, set_size


class StubEngine:
    """Implements lading.supervisor.engines.Engine without images, limits or isolation."""

    sees_private_mounts = False

    def __init__(
        self,
        settings: EngineSettings,
        *,
        faults: Mapping[str, LadingError] | None = None,
        out_of_memory: bool = False,
    ) -> None:
        self.settings = settings
        self.calls: list[str] = []
        self.users: list[str] = []
        """Whom each command of a session was to run as."""
        self.notes: list[str] = []
        self.started = asyncio.Event()
        self.spec: ContainerSpec | None = None
        self._faults = dict(faults or {})
        self._out_of_memory = out_of_memory
        self._streams: list[int] = []
        self._process: asyncio.subprocess.Process | None = None
        self._beside: list[asyncio.subprocess.Process] = []

    @property
    def pid(self) -> int | None:
        """The command."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def check(self) -> str:
        """Succeed, unless `faults` names it."""
        self._called("check")
        return "stub engine"

    async def prepare(self, image: ImageSource) -> None:
        """Ask for the image's name, and no more."""
        self._called("prepare")
        await image.name()

    async def create(self, spec: ContainerSpec) -> None:
        """Keep the specification."""
        self._called("create")
        self.spec = spec
        self._streams = [
            os.dup(descriptor) if descriptor >= 0 else subprocess.DEVNULL
            for descriptor in (spec.stdin, spec.stdout, spec.stderr)
        ]

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Run it."""
        self._called("run")
        spec = self.spec
        if spec is None:
            raise ExecutionError("nothing was created")
        stdin, stdout, stderr = self._streams
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(self._mapped(word) for word in spec.command),
                env={
                    name: self._mapped(value)
                    for name, value in (("PATH", "/usr/bin:/bin"), *spec.environment)
                },
                cwd=self._mapped(spec.cwd) if spec.cwd not in ("", ".") else "/",
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise ExecutionError(f"the command cannot be started: {error}", Failure.USER) from error
        finally:
            self._close()
        self.started.set()
        stopper = asyncio.create_task(self._stop_when(stop, stop_grace), name="stopper")
        try:
            code = await self._process.wait()
        finally:
            await cancel_all(stopper)
        return Exit(code=code if code >= 0 else 128 - code, out_of_memory=self._out_of_memory)

    async def abort(self) -> None:
        """Kill the command."""
        self._called("abort")
        if self._process is not None and self._process.returncode is None:
            self._kill(signal.SIGKILL)

    @property
    def first(self) -> int | None:
        """The command."""
        return self.pid

    async def execute(self, order: Exec) -> ProcessExecution:
        """Run it as a plain process, with a terminal of this machine."""
        self._called("execute")
        self.users.append(order.user)
        command = [self._mapped(word) for word in order.command]
        ours = theirs = -1
        if order.terminal is not None:
            ours, theirs = pty.openpty()
            set_size(ours, order.terminal)
            os.set_blocking(ours, False)
            command = ["setsid", "--ctty", *command]
        stream = theirs if theirs >= 0 else subprocess.PIPE
        environment = (*(self.spec.environment if self.spec else ()), *order.environment)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=stream,
                stdout=stream,
                stderr=stream,
                env={"PATH": "/usr/bin:/bin", **dict(environment)},
                cwd="/",
            )
        except OSError as error:
            os.close(ours) if ours >= 0 else None
            raise ExecutionError(f"the command cannot be started: {error}", Failure.USER) from error
        finally:
            if theirs >= 0:
                os.close(theirs)
        self._beside.append(process)
        return ProcessExecution(process, target=lambda: process.pid, terminal=ours)

    async def hold(self) -> None:
        """Have a process that waits in place of the command."""
        self._called("hold")
        self._process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)

    async def kill(self) -> None:
        """Kill the command's processes, and the commands beside it."""
        self._called("kill")
        if self._process is not None:
            self._kill(signal.SIGKILL)
            await self._process.wait()
        for process in self._beside:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def remove(self) -> None:
        """Kill the command and its processes."""
        self.calls.append("remove")
        self._close()
        if self._process is not None:
            self._kill(signal.SIGKILL)
            await self._process.wait()
        if "remove" in self._faults:
            raise self._faults["remove"]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self._faults:
            raise self._faults[name]

    def _mapped(self, word: str) -> str:
        for bind in reversed(self.spec.binds if self.spec else ()):
            word = word.replace(bind.target, bind.source)
        return word

    def _close(self) -> None:
        for descriptor in self._streams:
            if descriptor >= 0:
                os.close(descriptor)
        self._streams = []

    async def _stop_when(self, stop: asyncio.Event, grace: float) -> None:
        await stop.wait()
        self._kill(signal.SIGTERM)
        await asyncio.sleep(grace)
        self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return
