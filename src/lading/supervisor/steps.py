"""Runs the steps of a container one after another, on any engine.

`StepEngine` is an engine made of engines: each step has one of its own, made from the same settings
as the container's, so that at any moment at most one container exists, which a clean-up process
finds after a crash. All images are prepared before the first step. Steps share the binds of the
container. Source: docs/spec/containers, section Steps.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from lading.core.containers.mounting.mounts import covering
from lading.core.containers.steps import STATUS, ContainerStep, read_steps
from lading.core.errors import ExecutionError, Failure, LadingError
from lading.core.values import JsonObject
from lading.process import confined
from lading.supervisor.ending import refused_by_kernel
from lading.supervisor.engines import (
    ContainerSpec,
    Engine,
    Exec,
    Execution,
    Exit,
    ImageSource,
    is_occupied,
    root_directory,
)
from lading.supervisor.inputs.collection_image import CollectionImage
from lading.supervisor.logs import STDERR, STDOUT, Log, Pump
from lading.supervisor.session import SupervisorSession

# Exit codes of a shell for a program that is not there, or cannot be executed (POSIX, 2.8.2).
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
# Seconds to read the rest of a step's output.
_DRAIN = 5.0
_INPUT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StepEngine:
    """Implements `lading.supervisor.engines.Engine` for a container with steps."""

    def __init__(
        self, first: Engine, make: Callable[[], Engine], session: SupervisorSession, log: Log
    ) -> None:
        self._session = session
        self._log = log
        self._steps = read_steps(session.container.steps)
        self._engines = [first, *(make() for _ in self._steps[1:])]
        self._engine = first
        self._spec: ContainerSpec | None = None
        self._done: list[JsonObject] = []
        self.notes: list[str] = []
        """None: those of each step are written when it begins."""
        self.sees_private_mounts = first.sees_private_mounts

    @property
    def pid(self) -> int | None:
        """A process of the present step."""
        return self._engine.pid

    @property
    def first(self) -> int | None:
        """The first process of the present step."""
        return self._engine.first

    @property
    def root_directory(self) -> Path | None:
        """The root file system of the last step, where it can be read."""
        return root_directory(self._engine)

    async def check(self) -> str:
        """The engine and its version. Raises ExecutionError(NODE)."""
        return await self._engine.check()

    async def prepare(self, image: ImageSource) -> None:
        """Make the images of all steps ready. Raises ExecutionError."""
        sources: dict[str, ImageSource] = {image.pdh: image}
        for engine, step in zip(self._engines, self._steps, strict=True):
            pdh = step.container_image
            if pdh not in sources:
                sources[pdh] = CollectionImage(self._session.data, self._session.blocks, pdh)
            await engine.prepare(sources[pdh])

    def is_occupied(self, path: str) -> bool:
        """Whether an image of any step may have files at a path (`engines.is_occupied`)."""
        return any(is_occupied(engine, path) for engine in self._engines)

    async def create(self, spec: ContainerSpec) -> None:
        """Keep the specification: each step makes its own container."""
        # The streams of the container are not used: each step has its own.
        self._spec = structs.replace(spec, stdin=-1, stdout=-1, stderr=-1)

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Run the steps until one fails that must not, or `stop` is set. The exit is that of the
        step which failed, or code 0. Raises ExecutionError for faults that are not the user's.
        """
        spec = self._spec
        if spec is None:
            raise ExecutionError("no container was created")
        ended = Exit(code=0)
        for number, (engine, step) in enumerate(zip(self._engines, self._steps, strict=True)):
            if number:
                # Its processes are dead: the next one has the name and the place of its container.
                await self._engine.remove()
                self._engine = engine
            self._log.say(f"step {number + 1} of {len(self._steps)}: {step.command[0]}")
            ended = await self._run_step(engine, step, spec, stop, stop_grace)
            if stop.is_set() or ended.lost or (ended.code and not step.ignore_error):
                return ended
        return structs.replace(ended, code=0)

    async def abort(self) -> None:
        """Kill the present step."""
        await self._engine.abort()

    async def execute(self, order: Exec) -> Execution:
        """Run a command in the container of the present step."""
        return await self._engine.execute(order)

    async def hold(self) -> None:
        """Keep the container of the step that failed."""
        await self._engine.hold()

    async def kill(self) -> None:
        """End every process of the last step; those of earlier ones are dead."""
        await self._engine.kill()

    async def remove(self) -> None:
        """Undo everything."""
        await self._engine.remove()
        for engine in self._engines:
            # The engines of earlier steps hold images.
            if engine is not self._engine:
                await engine.remove()

    async def _run_step(
        self,
        engine: Engine,
        step: ContainerStep,
        spec: ContainerSpec,
        stop: asyncio.Event,
        grace: float,
    ) -> Exit:
        begun, starts = self._log.now(), [self._log.size(stream) for stream in (STDOUT, STDERR)]
        pumps: list[Pump] = []
        try:
            fault = ""
            try:
                streamed = self._with_streams(step, spec, pumps)
            except OSError as error:
                fault = f"{error.filename}: {error.strerror}"
            if fault:
                ended = self._refuse(1, fault)
            else:
                ended = await self._carry_out(engine, streamed, pumps, stop, grace)
            # Before the next step begins: a process of this one could change its files.
            await engine.kill()
        finally:
            for pump in pumps:
                await pump.finish(_DRAIN)
        ended = refused_by_kernel(ended, self._log, since=starts[1])
        await self._tell(begun, starts, ended)
        return ended

    async def _carry_out(
        self,
        engine: Engine,
        spec: ContainerSpec,
        pumps: list[Pump],
        stop: asyncio.Event,
        grace: float,
    ) -> Exit:
        try:
            try:
                await engine.create(spec)
            finally:
                if spec.stdin >= 0:
                    os.close(spec.stdin)
                for pump in pumps:
                    pump.handed_over()
            for note in engine.notes:
                self._log.say(note)
            ended = await engine.run(stop=stop, stop_grace=grace)
        except ExecutionError as error:
            # A command that cannot be executed is a step that failed, as in a shell.
            if error.failure is not Failure.USER or stop.is_set():
                raise
            denied = "ermission denied" in error.message or "format error" in error.message
            return self._refuse(_NOT_EXECUTABLE if denied else _NOT_FOUND, error.message)
        for note in ended.notes:
            self._log.say(note)
        return ended

    def _refuse(self, code: int, why: str) -> Exit:
        self._log.say(why)
        stream = self._log.stream(STDERR)
        stream.end_line()
        stream.write(why.encode() + b"\n")
        return Exit(code=code)

    def _with_streams(
        self, step: ContainerStep, spec: ContainerSpec, pumps: list[Pump]
    ) -> ContainerSpec:
        """The specification of a step, with its streams open. Raises OSError naming a file that
        cannot be opened.
        """
        copy = _open(spec, step.stdout, _OUTPUT) if step.stdout else -1
        pumps.append(Pump(self._log, STDOUT, copy=copy))
        if step.stderr and step.stderr == step.stdout:
            # One offset for both, as `2>&1`: each would overwrite the other.
            copy = os.dup(copy)
        else:
            copy = _open(spec, step.stderr, _OUTPUT) if step.stderr else -1
        pumps.append(Pump(self._log, STDERR, copy=copy))
        return structs.replace(
            spec,
            command=tuple(step.command),
            environment=(*spec.environment, *step.environment.items()),
            cwd=step.cwd,
            stdin=_open(spec, step.stdin, _INPUT) if step.stdin else -1,
            stdout=pumps[0].writing,
            stderr=pumps[1].writing,
        )

    async def _tell(self, begun: str, starts: list[int], ended: Exit) -> None:
        """Add the step to the status of the container."""
        spans = zip(starts, (STDOUT, STDERR), strict=True)
        out, err = ([start, self._log.size(name)] for start, name in spans)
        self._done.append(
            {
                "started_at": begun,
                "finished_at": self._log.now(),
                "exit_code": ended.code,
                "stdout": [*out],
                "stderr": [*err],
            }
        )
        try:
            await self._session.add_status({STATUS: self._done})
        except LadingError as error:
            # The next step tells it again; the container goes on without its server.
            self._log.say(f"the end of a step was not told: {error.message}")


def _open(spec: ContainerSpec, path: str, flags: int) -> int:
    """A descriptor of a file that the container has at `path`, in one of its binds. No link is
    followed. Raises OSError naming the path.
    """
    binds = {bind.target: bind for bind in spec.binds}
    cover = covering(binds, path)
    if cover is None or binds[cover].memory is not None:
        raise FileNotFoundError(0, "is in no mount that files can be in", path)
    source, below = binds[cover].source, path[len(cover) + 1 :]
    live = binds[cover].live
    if live is not None and flags != _INPUT:
        raise PermissionError(0, "is in a live mount, where streams are read only", path)
    try:
        descriptor = (
            _open_below(source, below, flags)
            if live is None
            else _open_live(live.descriptor, below)
        )
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "is not a regular file", path)
    # The flag was for opening: a named pipe must not block this process.
    os.set_blocking(descriptor, True)
    return descriptor


def _open_live(descriptor: int, below: str) -> int:
    """A descriptor to read a file of a live mount, which is itself open as `descriptor`."""
    if not below:
        return os.open(f"/proc/self/fd/{descriptor}", _INPUT & ~os.O_NOFOLLOW)
    with confined.ConfinedTree(os.dup(descriptor)) as tree:
        return tree.open_file(below)


def _open_below(source: str, below: str, flags: int) -> int:
    if not below:
        return os.open(source, flags, 0o666)
    with (
        confined.ConfinedTree.open(Path(source)) as tree,
        tree.parent(below, make=0o777) as (folder, name),
    ):
        return os.open(name, flags, 0o666, dir_fd=folder)
