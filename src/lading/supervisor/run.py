"""One container from Locked to its end: an ordered list of named steps, each idempotent and undoable.

    record     read the container and its token        nothing to undo
    inputs     make mounts, have the image ready        let the cached collections and layers go
    container  make it, all but started; be Running     remove it: processes, cgroup, mounts
    command    let it run to its end                    nothing to undo

and then, whatever happened, save the output and the log and report the end. Each step is journalled, so that after a
crash another process can undo what was begun (`supervisor.cleaning`).

The order of writes makes a container run at most once: the record is Running before any code of the user starts, and
when that write is refused (somebody cancelled or took the container) nothing starts and nothing more is written.

What is final (api-contract 2.5, dispatch-contract A.6): Complete when the command ran and its output was saved,
whatever its exit code; Cancelled when it could not be started, was stopped or ran out of time, or its output could not
be saved; Queued when told to stop before it was Running. `runtime_status.failure` names the class of a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from lading import __version__
from lading.client.transport import Transport
from lading.client.trees import TreeCache
from lading.core import mountplan
from lading.core.constraints import has_network
from lading.core.container import State
from lading.core.errors import ExecutionError, LadingError
from lading.supervisor.assignment import Assignment
from lading.supervisor.capture import save_files
from lading.supervisor.ending import Ending, failed, judge, signal_name
from lading.supervisor.engines import Bind, Engine, EngineSettings, Exit, Spec
from lading.supervisor.image import CollectionImage
from lading.supervisor.journal import CONTAINER_STEP, Journal, Mark, Opening
from lading.supervisor.live import LiveView
from lading.supervisor.logs import NODE, RECORD, STDERR, STDOUT, Clock, Log, Pump
from lading.supervisor.machine import certificates, describe_machine, mount_table
from lading.supervisor.results import Results
from lading.supervisor.session import Lost, Session, open_transport
from lading.supervisor.staging import Inputs, Stage
from lading.supervisor.usage import Usage

_DRAIN = 5.0
_CERTIFICATES = "/etc/arvados/ca-certificates.crt"
_logger = logging.getLogger("lading.supervisor")
EngineMaker = Callable[[str, EngineSettings], Engine]


@dataclass(frozen=True, slots=True)
class Step:
    """A named step: `do` may be repeated, `undo` may be called when `do` was never finished, or not even begun."""

    name: str
    do: Callable[[], Awaitable[None]]
    undo: Callable[[], Awaitable[None]]


class _Stopped(LadingError):
    """We were told to stop."""


async def supervise(
    assignment: Assignment,
    *,
    clock: Clock = lambda: datetime.now(UTC),
    transport: Transport | None = None,
    engines: EngineMaker,
    stop: asyncio.Event | None = None,
    flush: asyncio.Event | None = None,
) -> int:
    """Carry out the assignment; 0 when its life cycle was completed, 1 when it was not (dispatch-contract A.1).

    The caller holds the lock of the run directory, which is emptied here but for the lock. `stop` is set to cancel
    the container, `flush` to have its log saved now.
    """
    way = transport or open_transport(assignment)
    supervisor = Supervisor(assignment, Session(assignment, way), clock=clock, engines=engines)
    supervisor.stop = stop or supervisor.stop
    supervisor.flush = flush or supervisor.flush
    try:
        return await supervisor.run()
    finally:
        await way.close()


class Supervisor:
    """The life of one container."""

    def __init__(self, assignment: Assignment, session: Session, *, clock: Clock, engines: EngineMaker) -> None:
        self.stop, self.flush = asyncio.Event(), asyncio.Event()
        self._assignment = assignment
        self._session = session
        self._directory = Path(assignment.run_directory)
        self._settings = EngineSettings(
            container_uuid=assignment.container_uuid,
            run_directory=assignment.run_directory,
            cache_directory=assignment.cache_directory,
            docker_socket=assignment.docker_socket,
            cache_size=assignment.cache_size,
        )
        self._journal = Journal(self._directory)
        self._journal.open(Opening(engine=assignment.engine, settings=self._settings))
        self._log = Log(self._directory / "log", clock)
        self._engine = engines(assignment.engine, self._settings)
        self._inputs: Inputs | None = None
        self._stage: Stage | None = None
        self._pumps: list[Pump] = []
        self._usage: Usage | None = None
        self._exit: Exit | None = None
        self._running = self._timed_out = False
        self._lost = False

    async def run(self) -> int:
        """Go through all steps, report, undo; see `supervise`."""
        nothing = _nothing
        steps = (
            Step("record", self._read_record, nothing),
            Step("inputs", self._make_inputs, self._drop_inputs),
            Step(CONTAINER_STEP, self._make_container, self._remove_container),
            Step("command", self._run_command, nothing),
        )
        begun: list[Step] = []
        try:
            ending = await self._go_through(steps, begun)
            return 0 if await self._report(ending) else 1
        finally:
            for step in reversed(begun):
                await self._undo(step)
            self._log.close()

    async def _go_through(self, steps: tuple[Step, ...], begun: list[Step]) -> Ending:
        try:
            for step in steps:
                begun.append(step)
                self._journal.write(step.name, Mark.BEGUN)
                await step.do()
                self._journal.write(step.name, Mark.DONE)
        except Lost as error:
            self._log.say(f"this container is not ours to run: {error.message}")
            return Ending(state=None)
        except _Stopped:
            self._log.say("told to stop before anything was run")
            return Ending(state=State.CANCELLED if self._running else State.QUEUED)
        except ExecutionError as error:
            return Ending(state=State.CANCELLED) if self.stop.is_set() and self._running else failed(error)
        except (LadingError, OSError) as error:
            if not self._session.token:
                # Nothing is known of the container: whoever locked it gives it back.
                _logger.error("container=%s record not read: %s", self._assignment.container_uuid, error)
                return Ending(state=None)
            return failed(ExecutionError(str(error)))
        if self._lost or self._exit is None:
            return Ending(state=None)
        stopped = self.stop.is_set()
        return judge(self._exit, self._session.container, stopped=stopped, timed_out=self._timed_out)

    async def _undo(self, step: Step) -> None:
        try:
            await step.undo()
            self._journal.write(step.name, Mark.UNDONE)
        except (LadingError, OSError, TimeoutError) as error:
            # The run directory stays, so that whoever cleans up after us tries again.
            _logger.error("container=%s step=%s not undone: %s", self._assignment.container_uuid, step.name, error)

    # The steps.

    async def _read_record(self) -> None:
        self._log.say(f"lading {__version__} supervising {self._assignment.container_uuid}")
        await self._unless_stopped(self._session.open())
        self._log.put(RECORD, msgspec.json.format(msgspec.json.encode(self._session.record), indent=4))

    async def _make_inputs(self) -> None:
        session, container = self._session, self._session.container
        plan = mountplan.plan(
            container.mounts,
            secret_mounts=await session.secrets(),
            output_path=container.output_path,
            scratch=str(self._directory / "mounts"),
        )
        cache = TreeCache(Path(self._assignment.cache_directory) / "trees", self._assignment.cache_size)
        self._inputs = Inputs(session.data, session.blocks, cache)
        self._stage = Stage(plan)
        image = CollectionImage(session.data, session.blocks, container.container_image)
        self._log.say(f"image {container.container_image}; {len(plan.collections)} input collections")
        await self._unless_stopped(
            together(
                self._stage.set(self._inputs, memory=self._engine.sees_private_mounts), self._engine.prepare(image)
            )
        )

    async def _drop_inputs(self) -> None:
        if self._stage is not None:
            await self._stage.close()

    async def _make_container(self) -> None:
        stage = self._stage
        if stage is None:
            raise ExecutionError("the mounts were not made")
        if self.stop.is_set():
            raise _Stopped
        spec = self._spec(stage)
        try:
            # The engine stops short of the command, so both may go on at the same time.
            await together(self._engine.create(spec), self._become_running())
        finally:
            stage.close_streams()
            for pump in self._pumps:
                pump.handed_over()

    async def _become_running(self) -> None:
        await self._session.report_running()
        self._running = True

    async def _remove_container(self) -> None:
        await self._engine.remove()
        for pump in self._pumps:
            await pump.finish(0)

    async def _run_command(self) -> None:
        if self.stop.is_set():
            raise _Stopped
        for note in self._engine.notes:
            self._log.say(note)
        self._log.say("starting the command")
        limit = self._session.container.scheduling_parameters.get("max_run_time")
        seconds = limit if isinstance(limit, int) and limit > 0 else None
        async with self._accompanied():
            running = asyncio.ensure_future(
                self._engine.run(stop=self.stop, stop_grace=self._assignment.stop_grace_period)
            )
            self._log.put(NODE, describe_machine(self._directory))
            await asyncio.wait((running,), timeout=seconds)
            if not running.done():
                self._timed_out = True
                self._log.say(f"the container has run for {seconds} s, its max_run_time; stopping it")
                self.stop.set()
            self._exit = await running
        for pump in self._pumps:
            if not await pump.finish(_DRAIN):
                self._log.say("the command has ended but something still holds its output open; the rest is not read")
        self._log.say(f"the command ended with exit code {self._exit.code}{signal_name(self._exit.code)}")

    # What they need.

    def _spec(self, stage: Stage) -> Spec:
        container = self._session.container
        api = container.runtime_constraints.get("API") is True
        environment = {name: str(value) for name, value in container.environment.items()}
        binds = list(stage.binds)
        bundle = certificates()
        if api:
            environment |= {"ARVADOS_API_TOKEN": self._session.token, "ARVADOS_API_HOST": self._assignment.api_host}
            if self._assignment.api_host_insecure:
                environment["ARVADOS_API_HOST_INSECURE"] = "1"
            if bundle and all(bind.target != _CERTIFICATES for bind in binds):
                binds.append(Bind(bundle, _CERTIFICATES, True))
        return Spec(
            command=tuple(container.command),
            environment=tuple(environment.items()),
            cwd=container.cwd,
            binds=tuple(binds),
            network=has_network(container.runtime_constraints),
            ram=_amount(container.runtime_constraints.get("ram")),
            vcpus=_amount(container.runtime_constraints.get("vcpus")),
            stdin=stage.stdin,
            stdout=stage.stdout if stage.stdout >= 0 else self._pump(STDOUT),
            stderr=stage.stderr if stage.stderr >= 0 else self._pump(STDERR),
        )

    def _pump(self, name: str) -> int:
        pump = Pump(self._log, name)
        self._pumps.append(pump)
        return pump.writing

    @contextlib.asynccontextmanager
    async def _accompanied(self) -> AsyncGenerator[None]:
        """What goes on beside the command: live view, usage samples, saving the log when asked."""
        assignment = self._assignment
        live = LiveView(self._session.once, assignment.container_uuid, self._log, on_lost=self._on_lost)
        ram = _amount(self._session.container.runtime_constraints.get("ram"))
        self._usage = Usage(self._log, self._directory, ram, time.monotonic)
        companions = (
            live.run(period=assignment.log_update_period, size=assignment.log_update_size),
            self._usage.run(lambda: self._engine.pid, interval=assignment.usage_interval, mounts=mount_table()),
            self._save_when_asked(),
        )
        tasks = [asyncio.create_task(self._guarded(one)) for one in companions]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._usage.finish()

    async def _guarded(self, companion: Coroutine[Any, Any, None]) -> None:
        try:
            await companion
        except Exception:
            _logger.exception("container=%s a companion task failed", self._assignment.container_uuid)

    async def _save_when_asked(self) -> None:
        while True:
            await self.flush.wait()
            self.flush.clear()
            try:
                manifest = await save_files(self._log.directory, blocks=self._session.blocks)
                await self._session.save_interim_log(manifest)
            except LadingError as error:
                self._log.say(f"the log could not be saved: {error.message}")

    def _on_lost(self) -> None:
        self._lost = True
        self.stop.set()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        task, stopping = asyncio.create_task(work), asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise _Stopped
            await task
        finally:
            stopping.cancel()

    # The end.

    async def _report(self, ending: Ending) -> bool:
        """Save what there is and write the end; False when there was nothing to write or the server did not take it."""
        try:
            if ending.state is State.QUEUED:
                await self._session.give_back()
            elif ending.state is not None:
                results = Results(self._session, self._log, self._stage, self._inputs)
                await results.save(ending, started=self._exit is not None)
        except (LadingError, OSError) as error:
            _logger.error("container=%s end not reported: %s", self._assignment.container_uuid, error)
            return False
        return ending.state is not None


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at the same time; when one fails the others are cancelled, and the first failure is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _nothing() -> None:
    """Undo nothing."""


def _amount(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
