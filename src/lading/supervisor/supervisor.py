"""The life cycle of one container: an ordered list of named steps, each idempotent and undoable.

    step       do                                       undo
    record     read the container and its token         nothing
    inputs     make mounts, prepare the image           release cached data, unmount
    container  create it stopped; report Running        remove processes, cgroup, mounts
    command    run it to its end, kill the rest         nothing

Afterwards, in any case, output and log are saved and the end is reported. Each step is journalled,
so that after a crash another process can undo the begun steps (`supervisor.process.standalone`).

The order of writes makes a container run at most once: the record is Running before any code of the
user starts. When that write is refused (cancelled, taken), nothing starts and no more is written.

Final states (docs/spec/containers, section Run): Complete when the command ran, with any exit code,
and its output was saved; Cancelled when it was not started, was stopped or timed out, or its output
was not saved; Queued when stopped before Running. `runtime_status.failure` has a class.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lading import __version__
from lading.client.transport import Transport
from lading.core.containers.constraints import KEEP_ON_FAILURE
from lading.core.containers.container import ContainerState
from lading.core.containers.disk_space import DiskAllowance
from lading.core.errors import ExecutionError, Failure, LadingError
from lading.process.concurrency import StopEvent, WorkCancelled, together, unless
from lading.supervisor import journal
from lading.supervisor.container_gateway.gateway_listener import GatewayListener
from lading.supervisor.container_spec import Given, amount, specify
from lading.supervisor.ending import (
    LAST_CALL,
    Circumstances,
    Ending,
    failed,
    judge,
    refused_by_kernel,
    signal_name,
    stop_early,
    with_warning,
)
from lading.supervisor.engines import (
    ContainerSpec,
    Engine,
    EngineSettings,
    Exit,
    Spread,
)
from lading.supervisor.inputs.keep_mount import lost
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.journal import CONTAINER_STEP, JournalStep, RunJournal, StepMark, nothing
from lading.supervisor.limits.counters import descendants, processes
from lading.supervisor.logs import RANKS, STDERR, STDOUT, Clock, Log, Pump
from lading.supervisor.machine import (
    Costing,
    log_machine,
    must_report,
    report,
)
from lading.supervisor.preparation import SCRATCH, Preparation, reserve_of
from lading.supervisor.session import Activity, GivenBack, Lost, SupervisorSession, open_transport
from lading.supervisor.supervisor_config import SupervisorConfig

# A start of a supervisor waits for each import: what is needed after the start of the command, or
# by few containers, is imported then.
if TYPE_CHECKING:
    from lading.supervisor.gang.remote_rank_client import RemoteRankClient
    from lading.supervisor.monitors import Monitors
    from lading.supervisor.process.turn import Turn

_DRAIN = 5.0  # seconds
_logger = logging.getLogger("lading.supervisor")
EngineMaker = Callable[[str, EngineSettings], Engine]
_Answer = TypeVar("_Answer")


async def supervise(
    config: SupervisorConfig,
    *,
    clock: Clock = lambda: datetime.now(UTC),
    transport: Transport | None = None,
    engines: EngineMaker,
    stop: StopEvent | None = None,
    flush: asyncio.Event | None = None,
    reprice: asyncio.Event | None = None,
    on_idle: Callable[[], None] | None = None,
    turn: Turn | None = None,
) -> int:
    """Carry out `config`; 0 when its life cycle was completed, else 1 (docs/spec/containers).

    The caller holds the lock of the run directory, which has nothing of an earlier run. `stop` is
    set to cancel the container, `flush` to have its log saved now, `reprice` when there may be new
    prices. A given `transport` stays open. `on_idle` is called when the command has ended and the
    container uses no processors, RAM or GPUs any more; for some containers never. `turn` waits for
    processors after a long preparation.
    """
    way = transport or open_transport(config)
    supervisor = Supervisor(config, SupervisorSession(config, way), clock=clock, engines=engines)
    supervisor.stop = stop or supervisor.stop
    supervisor.flush = flush or supervisor.flush
    supervisor.reprice = reprice or supervisor.reprice
    supervisor.on_idle, supervisor.turn = on_idle, turn
    try:
        return await supervisor.run()
    finally:
        if transport is None:
            await way.close()


class Supervisor:
    """The life of one container."""

    def __init__(
        self,
        config: SupervisorConfig,
        session: SupervisorSession,
        *,
        clock: Clock,
        engines: EngineMaker,
    ) -> None:
        self.stop, self.flush, self.reprice = StopEvent(), asyncio.Event(), asyncio.Event()
        self.on_idle: Callable[[], None] | None = None
        self.turn: Turn | None = None
        self._assignment, self._session = config, session
        self._directory = Path(config.run_directory)
        self._settings = config.engine_settings
        # Before the first step: after a crash the cleaner must know the engine.
        self._journal = RunJournal(self._directory, session.trace)
        self._journal.open(journal.JournalHeader(engine=config.engine, settings=self._settings))
        kept = reserve_of(config)
        self._log = Log(self._directory / "log", clock, limit=config.log_limit, kept=kept)
        self._preparation = Preparation(config, session, self._log)
        self._remote_ranks: RemoteRankClient | None = None
        self._make_engine = functools.partial(engines, config.engine, self._settings)
        self._engine = self._make_engine()
        self._gateway = GatewayListener(config, session, self._engine, self._log.say)
        self._activity = Activity(session.report_activity, session.trace.doing, note=self._log.say)
        self._pumps: list[Pump] = []
        self._monitors: Monitors | None = None
        self._costing = Costing(config, clock)
        self._clock = clock
        self._engine_fault: ExecutionError | None = None
        self._exit: Exit | None = None
        self._untold: Ending | None = None
        self._overfull = ""
        self._running = self._timed_out = self._stopped = False
        self._lost = self._unmounted = self._kept = self._is_dead = False

    async def run(self) -> int:
        """Run all steps, report the end, undo the steps; see `supervise`."""
        steps = (
            JournalStep("record", self._read_record, nothing),
            JournalStep("inputs", self._make_inputs, self._preparation.close),
            JournalStep(CONTAINER_STEP, self._make_container, self._remove_container),
            JournalStep("command", self._run_command, nothing),
        )
        begun: list[JournalStep] = []
        try:
            try:
                ending = await self._go_through(steps, begun)
                if self._overfull:
                    # The disk may be full: scratch is removed before anything is saved.
                    self._untold = ending
                reported = self._untold is None and await self._report(ending)
            finally:
                # In reverse, and also after a cancellation: a begun step may have left something.
                for step in reversed(begun):
                    await self._undo(step)
            if self._untold is not None:
                reported = await self._report_late(self._untold)
            return 0 if reported else 1
        finally:
            self._journal.close()
            self._log.close()

    async def _go_through(self, steps: tuple[JournalStep, ...], begun: list[JournalStep]) -> Ending:
        try:
            for step in steps:
                begun.append(step)
                self._journal.write(step.name, StepMark.BEGUN)
                await step.do()
                self._journal.write(step.name, StepMark.DONE)
        except Lost as error:
            self._log.say(f"this container is not ours to run: {error.message}")
            return Ending(state=None)
        except WorkCancelled:
            self._log.say("stopped before anything was run")
            return await stop_early(self._session, self._assignment, running=self._running)
        except GivenBack as error:
            self._log.say(error.message)
            return Ending(state=ContainerState.QUEUED)
        except ExecutionError as error:
            return await self._blame(error)
        except (LadingError, OSError) as error:
            if not self._session.token:
                # The record could not be read: the dispatcher returns the container to the queue.
                _logger.error(
                    "container=%s record not read: %s", self._assignment.container_uuid, error
                )
                return Ending(state=None)
            return failed(ExecutionError(str(error)))
        return await self._judge_exit()

    async def _judge_exit(self) -> Ending:
        if self._lost or self._exit is None:
            return Ending(state=None)
        if self._unmounted:
            return failed(lost(), exit_code=self._exit.code)
        circumstances = Circumstances(
            stopped=self._stopped,
            timed_out=self._timed_out,
            preempted=self._preempted(),
            overfull=self._overfull,
            full=self._preparation.full() if self._exit.code else "",
            wanted=self._stopped and not self._timed_out and await self._session.is_wanted(),
            left=self._assignment.dispatcher_classifies,
        )
        ending = judge(self._exit, self._session.container, circumstances)
        if ending.state is not ContainerState.COMPLETE:
            return ending
        sentences = await asyncio.to_thread(self._preparation.overfull_mounts)
        return with_warning(ending, "; ".join(sentences), "\n".join(sentences))

    async def _blame(self, error: ExecutionError) -> Ending:
        """Choose the outcome for an error. A fault of the machine requeues the container."""
        if self._overfull:
            return failed(ExecutionError(self._overfull, Failure.DISK))
        if self.stop.is_set() and self._running:
            return await stop_early(self._session, self._assignment, running=True)
        config = self._assignment
        if error is self._engine_fault and await must_report(config, error, self._engine):
            self._log.say(error.message)
            self._log.say(await report(config, error.message))
            if not self._running:
                return Ending(state=ContainerState.QUEUED)
        return failed(error)

    async def _by_engine(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ExecutionError as error:
            self._engine_fault = error
            raise

    def _preempted(self) -> str:
        notice = self._monitors.notice if self._monitors else None
        return notice.text if notice is not None and notice.certain else ""

    async def _undo(self, step: JournalStep) -> None:
        try:
            await step.undo()
            self._journal.write(step.name, StepMark.UNDONE)
        except (LadingError, OSError, TimeoutError) as error:
            # The run directory stays, so that the clean-up process tries again.
            _logger.error(
                "container=%s step=%s not undone: %s",
                self._assignment.container_uuid,
                step.name,
                error,
            )

    # The steps.

    async def _read_record(self) -> None:
        self._log.say(f"lading {__version__} supervising {self._assignment.container_uuid}")
        await self._unless_stopped(self._session.open())
        if self._session.container.steps:
            from lading.supervisor.steps import StepEngine

            steps = StepEngine(self._engine, self._make_engine, self._session, self._log)
            self._engine = self._gateway.engine = steps

    async def _make_inputs(self) -> None:
        preparation = self._preparation
        if why := preparation.lacks_room():
            raise GivenBack(f"the container cannot begin, and is given back: {why}")
        preparation.begin()
        plan = preparation.plan(await self._unless_stopped(self._session.secrets()))
        set_stage, unpack = preparation.open(plan, self._engine)
        work = together(
            self._activity.doing("fetching its inputs", set_stage),
            self._activity.doing("unpacking its image", self._by_engine(unpack)),
        )
        async with self._activity.shown():
            await self._unless_stopped(self.turn.prepare(work) if self.turn is not None else work)
        if plan.copies:
            await asyncio.to_thread(preparation.note_copies)
        preparation.limit_disk(self._allowance)

    async def _make_container(self) -> None:
        stage = self._preparation.stage
        if stage is None:
            raise ExecutionError("the mounts were not made")
        if self.stop.is_set():
            raise WorkCancelled("told to stop")
        given = await self._unless_stopped(
            self._preparation.gpu_locks.take(self._session.container.runtime_constraints)
        )
        if given.devices:
            self._log.say(given.sentence)
        try:
            await self._preparation.settle(self._engine)
            spec = self._spec(stage, given)
            # The engine stops before the command, so both run at the same time.
            both = together(self._by_engine(self._engine.create(spec)), self._become_running())
            await self._unless_stopped(both, grace=LAST_CALL)
        finally:
            # In any case: copies that stay open here would keep pipes from ending.
            if self._remote_ranks is not None:
                self._remote_ranks.hand_over()
            stage.close_streams()
            for pump in self._pumps:
                pump.handed_over()

    async def _become_running(self) -> None:
        await self._gateway.find_address()
        shown, gateway = bool(self._activity.reported), self._gateway.open()
        self._costing.begin()
        refused = await self._session.report_running(clear_status=shown, gateway=gateway)
        if refused and not await self._gateway.fall_back():
            await self._gateway.close()
            self._log.say(f"nobody can enter this container: {refused}")
        self._running = True

    async def _remove_container(self) -> None:
        await self._gateway.close()
        await self._engine.remove()
        if self._remote_ranks is not None:
            await asyncio.to_thread(self._remote_ranks.close)
        self._preparation.gpu_locks.release()
        for pump in self._pumps:
            await pump.finish(0)

    async def _run_command(self) -> None:
        if self.stop.is_set():
            raise WorkCancelled("told to stop")
        for note in (*self._engine.notes, "starting the command"):
            self._log.say(note)
        seconds = amount(self._session.container.scheduling_parameters, "max_run_time") or None
        grace = self._assignment.stop_grace_period
        running = asyncio.ensure_future(self._engine.run(stop=self.stop, stop_grace=grace))
        try:
            # Its first step starts the command. Work beside it, done first, delayed it by 1.5 ms.
            await asyncio.sleep(0)
            ended = await self._watch_command(running, seconds)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await self._gateway.close()
        # Before output is read: a live process could change it, or replace a directory by a link.
        await self._by_engine(self._engine.kill())
        self._is_dead = True
        self._costing.end()
        for pump in self._pumps:
            if not await pump.finish(_DRAIN):
                self._log.say(
                    "the command has ended but something still holds its output open;"
                    " the rest is not read"
                )
        # Its whole standard error is read: the record, the log and the page tell the same code.
        ended = self._exit = refused_by_kernel(ended, self._log)
        self._log.say(f"the command ended with exit code {ended.code}{signal_name(ended.code)}")
        self._become_idle()

    async def _watch_command(self, running: asyncio.Future[Exit], seconds: int | None) -> Exit:
        """Wait for the end of the command, at most so long, with all that is done beside it."""
        monitors = self._monitors = self._accompany()
        async with monitors.beside(self._engine):
            log_machine(self._log, self._directory, self._assignment.instance_type)
            self._log.put_record(self._session.record)
            await asyncio.wait((running,), timeout=seconds)
            if not running.done():
                self._timed_out = True
                self._log.say(f"it has run for {seconds} s, its max_run_time; stopping it")
                self.stop.set()
            try:
                ended = self._exit = await running
            except ExecutionError as error:
                self._engine_fault = error
                raise
            for note in ended.notes:
                self._log.say(note)
            self._stopped = self.stop.is_set()
            await self._keep_failure(ended)
            return ended

    def _become_idle(self) -> None:
        """Report that the container uses no more resources, unless something of it still does."""
        stage, keep = self._preparation.stage, self._preparation.keep
        uses_memory = stage is None or stage.is_in_memory or (keep is not None and keep.is_open)
        if self.on_idle is not None and not (uses_memory or self._kept or self._nodes > 1):
            self._preparation.gpu_locks.release()
            self.on_idle()

    async def _keep_failure(self, ended: Exit) -> None:
        """Keep the container of a failed command for the time that its request asks for, so that
        users can examine it.
        """
        seconds = amount(self._session.container.scheduling_parameters, KEEP_ON_FAILURE)
        if ended.code == 0 or not seconds or self.stop.is_set():
            return
        try:
            self._kept = True
            await self._unless_stopped(self._engine.hold())
            until = (self._clock() + timedelta(seconds=seconds)).strftime("%H:%M:%SZ")
            text = (
                f"the command failed with exit code {refused_by_kernel(ended, self._log).code};"
                f" its container is kept until {until}: lading shell"
            )
            self._log.say(text)
            await self._unless_stopped(self._session.add_status({"activity": text}))
        except WorkCancelled:
            return
        except LadingError as error:
            self._log.say(f"the container of the failed command is not kept: {error.message}")
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

    # Parts and their inputs.

    def _accompany(self) -> Monitors:
        from lading.supervisor.monitors import Monitors

        disk = self._preparation.disk_watch(self._engine, self._allowance, self._processes)
        return Monitors(
            assignment=self._assignment,
            session=self._session,
            log=self._log,
            costing=self._costing,
            ram=amount(self._session.container.runtime_constraints, "ram"),
            flush=self.flush,
            reprice=self.reprice,
            on_lost=self._on_lost,
            keep=self._preparation.keep,
            on_unmounted=self._on_unmounted,
            disk=disk,
            on_full=self._on_full,
        )

    def _processes(self) -> list[int]:
        """Processes of the container."""
        folders = self._monitors.usage.folders if self._monitors else None
        pid = self._engine.pid
        return processes(folders) if folders else (descendants(pid) if pid else [])

    @property
    def _allowance(self) -> DiskAllowance:
        config = self._assignment
        here = self._nodes if not (config.annex_command or config.outposts) else 1
        return self._preparation.allowance(here)

    def _spec(self, stage: Stage, given: Given) -> ContainerSpec:
        return specify(
            self._session.container,
            stage,
            self._assignment,
            token=self._session.token,
            given=given,
            stdout=stage.stdout if stage.stdout >= 0 else self._pump(STDOUT),
            stderr=stage.stderr if stage.stderr >= 0 else self._pump(STDERR),
            notices=self._pump(RANKS) if self._nodes > 1 else -1,
            spread=self._start_ranks() if self._nodes > 1 else None,
        )

    def _start_ranks(self) -> Spread | None:
        """Start the ranks of a gang on other machines; None when all are on this one."""
        from lading.supervisor.gang.remote_rank_client import RemoteRankClient

        self._remote_ranks = RemoteRankClient(self._assignment)
        return self._remote_ranks.open(self._nodes)

    @property
    def _nodes(self) -> int:
        return self._session.container.nodes

    def _pump(self, name: str) -> int:
        pump = Pump(self._log, name)
        self._pumps.append(pump)
        return pump.writing

    def _on_unmounted(self) -> None:
        self._unmounted = True
        self._log.say("the mount of its collections has ended; stopping the command")
        self.stop.set()

    async def _on_full(self, why: str) -> None:
        self._overfull = why
        self._log.say(f"{why}; ending the container")
        self.stop.set()
        await self._engine.abort()

    def _on_lost(self) -> None:
        self._lost = True
        self.stop.set()

    async def _unless_stopped(
        self, work: Coroutine[Any, Any, _Answer], *, grace: float = 0.0
    ) -> _Answer:
        return await unless(self.stop, work, grace=grace)

    # The end.

    async def _report(self, ending: Ending, *, is_last: bool = False) -> bool:
        """Save the results and write the end; whether the server accepted an end."""
        from lading.supervisor.results import Report, Results

        limit, used = self._assignment.output_limit, self._monitors.used if self._monitors else {}
        self._log.put_record(self._session.record)
        stage, inputs = self._preparation.stage, self._preparation.inputs
        results = Results(self._session, self._log, self._costing, stage, inputs, limit, used)
        report = Report(results, self.stop, kept=self._kept, started=self._is_dead)
        is_told = await report.tell(ending, is_last=is_last)
        self._untold = report.untold or self._untold
        return is_told

    async def _report_late(self, ending: Ending) -> bool:
        """Report the end to a server whose disk may have been filled by this container: its scratch
        is removed first.
        """
        from lading.supervisor.results import free

        self._preparation.stage = self._preparation.inputs = None
        await free(self._directory / SCRATCH)
        return await self._report(ending, is_last=True)
