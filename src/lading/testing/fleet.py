"""A fake fleet without processes: slow, with faults, within the rules of `dispatch.fleet`.

The faults are drawn from a seed: a start may fail before or after the process exists, a process may
crash before, during or after its work, a signal may get lost, cleaning may fail at first. A breach
of the rules raises AssertionError: two living processes of one container, a start on a worker that
has no room or does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from signal import Signals

from lading.core.errors import Conflict, ExecutionError, Failure, Unavailable
from lading.core.resources import Resources
from lading.core.scheduling.planning import FleetWorker
from lading.dispatch.fleet import FleetView, LookUp, Spending, StartRequest, SupervisorProcess
from lading.process.concurrency import cancel_all
from lading.testing.pulse import Pulse

ONE_WORKER = (FleetWorker("w1", Resources(4, 4 << 30)),)
Work = Callable[[StartRequest], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meanness:
    """Chances from 0 to 1."""

    refuse: float = 0.0
    """`start` raises and nothing was started."""
    pretend: float = 0.0
    """`start` raises though the process exists."""
    crash: float = 0.0
    """The process ends without having done all its work."""
    deaf: float = 0.0
    """A signal gets lost."""
    stuck: float = 0.0
    """`clean` raises Unavailable."""
    slow: int = 0
    """Most turns of the event loop that anything takes."""


@dataclass(slots=True)
class FakeProcess:
    """The supervisor of one container, without a process."""

    assignment: StartRequest | None
    worker: str
    alive: bool = True
    signals: list[Signals] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE
    spending: Spending | None = None
    note: str = ""


class FakeFleet:
    """Implements `Fleet`.

    `work` is the work of a supervisor; without it processes live until `end` or a TERM. `processes`
    are there from before, as after a restart of the dispatcher: containers with their worker and
    whether they live.
    """

    def __init__(
        self,
        workers: Sequence[FleetWorker] = ONE_WORKER,
        *,
        work: Work | None = None,
        seed: int = 0,
        meanness: Meanness | None = None,
        processes: Mapping[str, SupervisorProcess] | None = None,
        is_known: bool = True,
    ) -> None:
        self.workers = tuple(workers)
        self.started: list[str] = []
        self.cleaned: list[str] = []
        self.faults: list[AssertionError] = []
        self.on_clean: Callable[[str], None] = lambda _: None
        self.processes = {
            uuid: FakeProcess(None, process.worker, process.alive)
            for uuid, process in dict(processes or {}).items()
        }
        self.unasked: tuple[str, ...] = ()
        self.trouble = ""
        self.ready_images: tuple[str, ...] = ()
        self._is_known = is_known
        self._work = work
        self._random = Random(seed)
        self._meanness = meanness or Meanness()
        self._change = asyncio.Event()
        self._pulse = Pulse()

    def set_lookup(self, look: LookUp) -> None:
        """Nothing here depends on it."""
        self.look = look

    def view(self) -> FleetView:
        """The known state."""
        shown = {
            uuid: SupervisorProcess(
                process.worker,
                alive=process.alive,
                fate=process.fate,
                failure=process.failure,
                spending=process.spending,
                waiting=bool(process.note),
                note=process.note,
            )
            for uuid, process in self.processes.items()
        }
        return FleetView(
            is_known=self._is_known,
            workers=self.workers,
            processes=shown if self._is_known else {},
            unasked=self.unasked,
            trouble=self.trouble,
            ready_images=self.ready_images,
        )

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._change.wait()
        self._change.clear()

    async def start(self, assignment: StartRequest) -> None:
        """Begin a process."""
        await self._dawdle()
        if assignment.uuid in self.processes:
            raise Conflict(f"{assignment.uuid}: an earlier supervisor is still there")
        if assignment.worker not in {worker.id for worker in self.workers}:
            raise ExecutionError(f"{assignment.worker}: no such worker")
        if self._chance(self._meanness.refuse):
            raise Unavailable("the fake fleet does not start this one")
        process = self.processes[assignment.uuid] = FakeProcess(assignment, assignment.worker)
        self.started.append(assignment.uuid)
        if self._work is not None:
            process.task = asyncio.create_task(self._run(process, assignment, self._work))
        self._touch()
        if self._chance(self._meanness.pretend):
            raise Unavailable("the fake fleet does not know whether it started this one")

    async def signal(self, uuid: str, number: Signals) -> None:
        """Signal a process; TERM and KILL end it."""
        await self._dawdle()
        process = self.processes.get(uuid)
        if process is None or not process.alive or self._chance(self._meanness.deaf):
            return
        process.signals.append(number)
        self._touch()
        if self._work is None and number in (Signals.SIGTERM, Signals.SIGKILL):
            self.end(uuid)
        elif process.task is not None:
            process.task.cancel()

    async def clean(self, uuid: str) -> None:
        """Drop a dead process."""
        await self._dawdle()
        one = self.processes.get(uuid)
        if one is not None and one.alive:
            raise Conflict(f"{uuid}: its supervisor is alive")
        if self._chance(self._meanness.stuck):
            raise Unavailable("the fake fleet cannot clear this one away yet")
        if self.processes.pop(uuid, None) is not None:
            self.cleaned.append(uuid)
        self.on_clean(uuid)
        self._touch()

    def become_known(self) -> None:
        """From now on the view shows the processes."""
        self._is_known = True
        self._touch()

    def ask_all(self) -> None:
        """All workers have reported their containers from now on."""
        self.unasked = ()
        self._touch()

    def offer(self, *workers: FleetWorker) -> None:
        """Other workers from now on."""
        self.workers = workers
        self._touch()

    def keep_waiting(self, uuid: str, note: str) -> None:
        """Let a process wait in the queue of a batch system, for the reason `note`; "" ends it."""
        self.processes[uuid].note = note
        self._touch()

    def end(
        self,
        uuid: str,
        *,
        fate: str = "",
        failure: Failure = Failure.INFRASTRUCTURE,
        spending: Spending | None = None,
    ) -> None:
        """End a process now; the message about it."""
        one = self.processes[uuid]
        one.alive, one.fate, one.failure, one.spending = False, fate, failure, spending
        self._touch()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; looked at after each change."""
        await self._pulse.wait_for(condition)

    async def close(self) -> None:
        """End all that runs here. Raises the first AssertionError of any `work`."""
        tasks = [process.task for process in self.processes.values() if process.task is not None]
        await cancel_all(*tasks)
        if self.faults:
            raise self.faults[0]

    async def _run(self, process: FakeProcess, assignment: StartRequest, work: Work) -> None:
        try:
            if self._chance(self._meanness.crash):
                return
            await self._dawdle()
            await work(assignment)
        except asyncio.CancelledError:
            return
        except AssertionError as fault:
            self.faults.append(fault)
        finally:
            process.alive = False
            self._touch()

    def _touch(self) -> None:
        self._change.set()
        self._pulse.beat()

    async def _dawdle(self) -> None:
        for _ in range(self._random.randint(0, self._meanness.slow)):
            await asyncio.sleep(0)

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance
