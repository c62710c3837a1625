"""The value that the steps of one container share: its parts, and all that is known so far.

A step reads and changes only its run. Effects go through its parts: the session (API), the engine
(processes), the log and the journal (files of the run directory).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lading.core.containers.disk_space import DiskAllowance
from lading.core.errors import ExecutionError
from lading.process.concurrency import StopEvent, unless
from lading.supervisor.container_gateway.gateway_listener import GatewayListener
from lading.supervisor.ending import Ending
from lading.supervisor.engines import Engine, EngineMaker, Exit
from lading.supervisor.journal import JournalHeader, RunJournal
from lading.supervisor.limits.counters import descendants, processes
from lading.supervisor.logs import Clock, Log, Pump
from lading.supervisor.machine import Costing
from lading.supervisor.preparation import Preparation, reserve_of
from lading.supervisor.session import Activity, SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

# A start of a supervisor waits for each import: what is needed after the start of the command, or
# by few containers, is imported then.
if TYPE_CHECKING:
    from lading.supervisor.gang.remote_rank_client import RemoteRankClient
    from lading.supervisor.monitors import Monitors

_Answer = TypeVar("_Answer")
HandOver: TypeAlias = Callable[[Sequence[int]], None]
"""Keeps copies of the descriptors of a handover (`lifecycle.handover`)."""
WaitForTurn: TypeAlias = Callable[[Awaitable[object]], Coroutine[Any, Any, None]]


@dataclass(slots=True, kw_only=True)
class Controls:
    """How the driver of a process controls the steps of one container, and hears of them."""

    stop: StopEvent = field(default_factory=StopEvent)
    """Set to cancel the container."""
    flush: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to have its log saved now."""
    reprice: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be new prices."""
    on_idle: Callable[[], None] | None = None
    """Called when the command has ended and the container uses no processors, RAM or GPUs any more;
    for some containers never.
    """
    hand_over: HandOver | None = None
    """Keeps all by which another supervisor can go on with the container."""
    turn: WaitForTurn | None = None
    """Awaits a preparation, and after a long one its turn to use processors."""


@dataclass(slots=True, kw_only=True)
class Facts:
    """The events of the container until now."""

    is_running: bool = False
    """The server has accepted that it is Running, with the lock or later."""
    exit: Exit | None = None
    """The end of its command."""
    is_dead: bool = False
    """Its command was run, and no process of it is left."""
    is_stopped: bool = False
    """Its command ended after a stop signal."""
    is_timed_out: bool = False
    """It has used up its max_run_time."""
    is_resumed: bool = False
    """An earlier supervisor has started its command."""
    is_kept: bool = False
    """It was kept after its command had failed."""
    is_lost: bool = False
    """Its record belongs to another process."""
    is_unmounted: bool = False
    """The mount of its collections ended before it."""
    overfull: str = ""
    """Why it was ended for its use of the disk, or ""."""
    engine_fault: ExecutionError | None = None
    """The latest error of its engine."""
    untold: Ending | None = None
    """The end that the server has not accepted, to report after the scratch was removed."""


@dataclass(slots=True, kw_only=True)
class ContainerRun:
    """One run of one container."""

    config: SupervisorConfig
    clock: Clock
    controls: Controls
    session: SupervisorSession
    journal: RunJournal
    log: Log
    preparation: Preparation
    make_engine: Callable[[], Engine]
    """Makes another engine with the settings of this container."""
    engine: Engine
    gateway: GatewayListener
    activity: Activity
    costing: Costing
    pumps: list[Pump] = field(default_factory=list)
    remote_ranks: RemoteRankClient | None = None
    monitors: Monitors | None = None
    facts: Facts = field(default_factory=Facts)

    @property
    def directory(self) -> Path:
        """Its run directory."""
        return Path(self.config.run_directory)

    @property
    def nodes(self) -> int:
        """Number of its ranks."""
        return self.session.container.nodes

    @property
    def allowance(self) -> DiskAllowance:
        """The disk that its ranks may fill on this machine."""
        config = self.config
        here = self.nodes if not (config.annex_command or config.outposts) else 1
        return self.preparation.allowance(here)

    @property
    def preempted(self) -> str:
        """The notice that its machine is taken away for certain, or ""."""
        notice = self.monitors.notice if self.monitors else None
        return notice.message if notice is not None and notice.certain else ""

    def processes(self) -> list[int]:
        """Its processes."""
        folders = self.monitors.usage.folders if self.monitors else None
        pid = self.engine.pid
        return processes(folders) if folders else (descendants(pid) if pid else [])

    def add_pump(self, name: str) -> int:
        """The writing end of a new pipe to a file of the log."""
        pump = Pump(self.log, name)
        self.pumps.append(pump)
        return pump.writing

    async def unless_stopped(
        self, work: Coroutine[Any, Any, _Answer], *, grace: float = 0.0
    ) -> _Answer:
        """Result of `work`. Raises WorkCancelled `grace` seconds after the stop was set."""
        return await unless(self.controls.stop, work, grace=grace)

    async def by_engine(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work` of the engine, and remember its error as one of the engine."""
        try:
            await work
        except ExecutionError as error:
            self.facts.engine_fault = error
            raise


def open_run(
    config: SupervisorConfig,
    session: SupervisorSession,
    *,
    clock: Clock,
    engines: EngineMaker,
    controls: Controls,
    is_begun: bool = False,
) -> ContainerRun:
    """A run at its beginning. The run directory gets its journal and log, unless they are begun by
    an earlier supervisor. Raises OSError.
    """
    directory, settings = Path(config.run_directory), config.engine_settings
    # Before the first step: after a crash the cleaner must know the engine.
    journal = RunJournal(directory, session.trace)
    if not is_begun:
        journal.open(JournalHeader(engine=config.engine, settings=settings))
    log = Log(directory / "log", clock, limit=config.log_limit, reserve=reserve_of(config))
    make_engine = functools.partial(engines, config.engine, settings)
    engine = make_engine()
    return ContainerRun(
        config=config,
        clock=clock,
        controls=controls,
        session=session,
        journal=journal,
        log=log,
        preparation=Preparation(config, session, log),
        make_engine=make_engine,
        engine=engine,
        gateway=GatewayListener(config, session, engine, log.say),
        activity=Activity(
            session.report_activity,
            session.trace.doing if session.trace is not None else contextlib.nullcontext,
            note=log.say,
        ),
        costing=Costing(config, clock),
        facts=Facts(is_running=config.is_started),
    )
