"""The dispatch loop: observe, plan, act.

A step is taken whenever something may have changed: an event about a record, a process that started
or ended, an action that is over, a pause that has run out. A step never waits; what takes time is a
task of its own, one at a time for each container. So an event leads to lock and start at once, and
the end of a process to the next start.

Source: docs/spec/dispatch, section Parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from lading.core.containers.container import ContainerState, DecisionKind
from lading.core.errors import ExecutionError, LadingError
from lading.core.resources import Resources
from lading.core.scheduling import batch_planner
from lading.core.scheduling.batch_planner import ReconcileAction
from lading.core.scheduling.planning import (
    Category,
    DispatchPlan,
    Snapshot,
    StartDecision,
    WaitStatus,
)
from lading.core.scheduling.wait_reasons import MISFITS
from lading.dispatch import observe
from lading.dispatch.actions import Actions
from lading.dispatch.decision_log import DecisionLog
from lading.dispatch.fleet import Fleet
from lading.dispatch.queue import Queue
from lading.dispatch.queue_sync import QueueSync
from lading.dispatch.state import DispatchState
from lading.telemetry import event

_logger = logging.getLogger("lading.dispatch")
_PLACED = (Category.PREPARING, Category.BOOTING)
_REQUEUED = "The last attempt ended before it ran; trying again in a moment."


@runtime_checkable
class Planning(Protocol):
    """The seam between the loop and a planner.

    A fleet that makes its workers as containers need them (cloud VMs) implements it itself, as it
    has to plan for workers that it does not have yet; for every other one `StaticPlanning` does. A
    plan is assumed to be carried out: failures show in the next snapshot.
    """

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        """The containers to start now, in order."""
        ...

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Why each container of the queue waits."""
        ...


class StaticPlanning:
    """For workers that are there: `core.scheduling.batch_planner`."""

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        """The containers to start now, in order."""
        return batch_planner.plan(snapshot)

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Why each container of the queue waits."""
        return batch_planner.explain(snapshot)


def planning_of(fleet: object) -> Planning:
    """The planning of a fleet: the fleet itself where it plans."""
    return fleet if isinstance(fleet, Planning) else StaticPlanning()


class Loop:
    """Decides at every step, and runs the tasks that carry the decisions out."""

    def __init__(
        self,
        *,
        queue: Queue,
        fleet: Fleet,
        queue_sync: QueueSync,
        actions: Actions,
        state: DispatchState,
        tasks: asyncio.TaskGroup,
        decisions: DecisionLog,
        wake: asyncio.Event,
        clock: Callable[[], float],
        planning: Planning | None = None,
        only: bool = False,
        busy: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
    ) -> None:
        self._queue = queue
        self._fleet = fleet
        self._queue_sync = queue_sync
        self._actions = actions
        self._state = state
        self._tasks = tasks
        self._decisions = decisions
        self._planning = planning or StaticPlanning()
        self._only = only
        self._busy = busy
        self._aside: frozenset[str] = frozenset()
        self.overdue: frozenset[str] = frozenset()
        """Containers that no worker here could hold for a while, of whom clients are to be
        warned.
        """
        self._wake = wake
        self._clock = clock

    async def run(self, after_step: Callable[[], None]) -> None:
        """Step for ever, whenever woken or when something falls due."""
        # Containers that were locked with this token before the first step: their processes may be
        # on workers that have not been asked yet.
        self._state.adopt(
            uuid for uuid, record in self._queue.others.items() if self._queue.holds(record)
        )
        while True:
            # Cleared before the step: whatever happens during it wakes the loop again.
            self._wake.clear()
            self.step()
            after_step()
            now = self._clock()
            due = self._state.next_moment(now=now)
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._wake.wait()
            except TimeoutError:
                # No event; a pause has run out.
                continue

    def step(self) -> None:
        """Compare records with processes, then plan; begin every action that follows."""
        now, view = self._clock(), self._fleet.view()
        for uuid in self._state.see(view, self._queue):
            record = self._queue.get(uuid)
            # What is final stays so: there is nothing more to learn of it.
            if record is None or not record.final:
                self._reread(uuid)
        for uuid, action in observe.differences(self._queue, view, self._state, now=now):
            self._begin(uuid, action, now=now)
        seen = observe.snapshot(self._queue, view, self._state, now=now, busy=self._busy())
        for uuid in observe.admitted(seen, self._queue, view):
            if self._state.may_act(uuid, now=now):
                self._do(uuid, self._actions.admit, now=now)
        for start in self._planning.plan(seen).starts:
            self._start(start, now=now)
        if self._queue_sync.more:
            starting = {uuid for uuid, _ in self._state.starting}
            self._queue_sync.refill(self._aside | self._state.held(now=now).keys() | starting)

    def statuses(self) -> dict[str, WaitStatus]:
        """Why each container that has not started waits. What fits nowhere is noted, and acted
        on.
        """
        now = self._clock()
        found = observe.statuses(
            self._queue, self._fleet.view(), self._state, explain=self._planning.explain, now=now
        )
        misfits = {uuid: one.sentence for uuid, one in found.items() if one.category in MISFITS}
        self._aside = frozenset(
            uuid for uuid, one in found.items() if uuid in misfits or one.category in _PLACED
        )
        self._state.fits(misfits)
        overdue = {uuid for uuid in misfits if self._state.is_overdue_misfit(uuid, now=now)}
        for uuid, sentence in misfits.items():
            if self._state.is_news(uuid, sentence):
                self._decisions.note(uuid, DecisionKind.NOT_RUN, sentence)
            # A dispatcher that is alone fails what it can never run; others only report it, as
            # another dispatcher may have a larger worker.
            if uuid in overdue and self._only and self._state.may_act(uuid, now=now):
                self._do(uuid, partial(self._actions.refuse, why=sentence), now=now)
        self.overdue = frozenset() if self._only else frozenset(overdue)
        for uuid in self._state.note_waits(found, self._queue, now=now):
            self._tell_waits(uuid, now=now)
        return found

    def _tell_waits(self, uuid: str, *, now: float) -> None:
        """Say what a container waited for after it was started, as in the queue of a batch
        system.
        """
        waited = self._state.tell_waits(uuid, now=now)
        record = self._queue.get(uuid)
        if (
            waited
            and record is not None
            and record.state not in (ContainerState.QUEUED, ContainerState.CANCELLED)
        ):
            self._decisions.note(
                uuid, DecisionKind.DISPATCHED, f"It began to run; it {waited}.", waited=waited
            )

    def _begin(self, uuid: str, action: ReconcileAction, *, now: float) -> None:
        match action:
            case ReconcileAction.REREAD:
                self._reread(uuid)
            case ReconcileAction.FORGET:
                self._queue.forget(uuid)
                self._state.forget(uuid)
                self._actions.forget(uuid)
            case ReconcileAction.KILL:
                record = self._queue.get(uuid)
                saved = record is not None and record.final
                number = self._state.stop_signal(uuid, now=now, nothing_to_save=saved)
                if number is not None:
                    self._do(uuid, partial(self._actions.kill, number=number), now=now)
            case ReconcileAction.CLEAN:
                self._do(uuid, self._actions.clean, now=now)
            case ReconcileAction.REQUEUE:
                # Given back because it could not be started: without a pause it would be locked
                # again at once.
                if uuid not in self._state.held(now=now):
                    self._state.hold(uuid, _REQUEUED, now=now)
                self._do(uuid, self._requeue, now=now)
            case ReconcileAction.CANCEL:
                self._do(uuid, self._actions.cancel, now=now)

    def _reread(self, uuid: str) -> None:
        self._queue_sync.reread(uuid, after=self._state.read_after(uuid))

    def _start(self, start: StartDecision, *, now: float) -> None:
        # In the state before the task begins: the next step may come first, and must not start it
        # twice.
        self._state.engage(
            start.uuid, now=now, worker=start.worker, extra=start.extra, others=start.others
        )
        self._tasks.create_task(self._carry_out_start(start))

    async def _carry_out_start(self, start: StartDecision) -> None:
        record = self._queue.get(start.uuid)
        amounts = (
            record.amounts(start.extra)
            if record is not None and start.extra != Resources()
            else None
        )
        try:
            waited = self._state.tell_waits(start.uuid, now=self._clock())
            await self._actions.start(
                start.uuid, worker=start.worker, others=start.others, amounts=amounts, waited=waited
            )
        except LadingError as error:
            event(_logger, "start failed", container=start.uuid, why=error)
            refused = isinstance(error, ExecutionError)
            again = "Trying again later." if refused else "Trying again in a moment."
            self._state.hold(start.uuid, f"{error} {again}", now=self._clock(), refused=refused)
            # The lock or the start may have succeeded although no answer came: the record is read
            # again.
            self._state.lost(start.uuid, self._queue)
            self._reread(start.uuid)
        finally:
            self._state.release(start.uuid)
            self._wake.set()

    async def _requeue(self, uuid: str) -> None:
        await self._actions.requeue(uuid)
        # Disowned after the call: as long as the record is not unlocked this dispatcher is
        # responsible.
        self._state.disown(uuid)

    def _do(self, uuid: str, action: Callable[[str], Awaitable[None]], *, now: float) -> None:
        self._state.engage(uuid, now=now)
        self._tasks.create_task(self._carry_out(uuid, action))

    async def _carry_out(self, uuid: str, action: Callable[[str], Awaitable[None]]) -> None:
        try:
            await action(uuid)
            self._state.succeeded(uuid)
        except LadingError as error:
            event(_logger, "action failed", container=uuid, why=error)
            self._state.retry(uuid, now=self._clock())
            self._reread(uuid)
        finally:
            self._state.release(uuid)
            self._wake.set()
