"""The dispatch loop: observe, plan, act.

A step is taken whenever something may have changed: an event about a record, a process that started
or ended, an action that is over, a pause that has run out. A step never waits; longer actions are
tasks of their own, one at a time for each container. So an event leads to lock and start at once,
and the end of a process to the next start.

`dispatch.actions` has the actions on one container.

Source: docs/spec/dispatch, section Parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from lading.core.containers.container import ContainerState, DecisionKind
from lading.core.errors import Conflict, ExecutionError, LadingError
from lading.core.resources import Resources
from lading.core.scheduling import batch_explanation, batch_planner
from lading.core.scheduling.lock_alternatives import find_alternatives
from lading.core.scheduling.planning import (
    Category,
    DispatchPlan,
    Snapshot,
    StartDecision,
    WaitStatus,
)
from lading.core.scheduling.reconcile import ReconcileAction
from lading.core.scheduling.wait_reasons import MISFITS
from lading.dispatch import observe
from lading.dispatch.actions import Actions, LockLost
from lading.dispatch.fleet import Fleet
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue import Queue
from lading.dispatch.queue_sync import QueueSync
from lading.dispatch.state import DispatchState
from lading.dispatch.status_publisher import DecisionLog
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
# A few more than dispatchers with free slots pass at once, while their events are under way.
_MOST_ALTERNATIVES = 32
_PLACED = (Category.PREPARING, Category.BOOTING)
_OUTPACED = "Another dispatcher was first. Trying again in a moment."
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

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Reason why each container of the queue waits."""


class StaticPlanning:
    """Planning for a fixed set of workers, by `core.scheduling.batch_planner`."""

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        """The containers to start now, in order."""
        return batch_planner.plan(snapshot)

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Reason why each container of the queue waits."""
        return batch_explanation.explain(snapshot)


def planning_of(fleet: object) -> Planning:
    """The planning of a fleet: the fleet itself where it plans."""
    return fleet if isinstance(fleet, Planning) else StaticPlanning()


@dataclass(slots=True)
class _StartUnderWay:
    """A start before the answer to its lock: the container that occupies the worker meanwhile."""

    uuid: str
    is_locked: bool = False


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
        holds: Callable[[], bool] = lambda: True,
        busy: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
        metrics: DispatchMetrics | None = None,
    ) -> None:
        self._metrics = metrics or DispatchMetrics()
        self._queue = queue
        self._fleet = fleet
        self._queue_sync = queue_sync
        self._actions = actions
        self._state = state
        self._tasks = tasks
        self._decisions = decisions
        self._planning = planning or StaticPlanning()
        self._only = only
        self._holds = holds
        self._busy = busy
        self._aside: frozenset[str] = frozenset()
        # Starts whose lock was not answered yet, by the container that they have planned.
        self._starting: dict[str, _StartUnderWay] = {}
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
            # Cleared before the step, so that any change during the step wakes the loop again.
            self._wake.clear()
            began = self._clock()
            self.step()
            self._metrics.note_step(self._clock() - began)
            after_step()
            now = self._clock()
            due = self._state.next_moment(now=now)
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._wake.wait()
            except TimeoutError:
                # No event came; a pause has run out.
                continue

    def step(self) -> None:
        """Compare records with processes, then plan; begin every action that follows."""
        # One that was suspended finds out first whether another dispatcher has replaced it.
        if not self._holds():
            return
        now, view = self._clock(), self._fleet.view()
        self._metrics.look_at(view, self._queue)
        for uuid in self._state.see(view, self._queue):
            record = self._queue.get(uuid)
            # A final record never changes: it need not be read again.
            if record is None or not record.final:
                self._reread(uuid)
        for uuid, action in observe.differences(self._queue, view, self._state, now=now):
            self._begin(uuid, action, now=now)
        snapshot = observe.snapshot(self._queue, view, self._state, now=now, busy=self._busy())
        for uuid in observe.admitted(snapshot, self._queue, view):
            if self._state.may_act(uuid, now=now):
                self._do(uuid, "admit", self._actions.admit, now=now)
        plan = self._planning.plan(snapshot)
        self._state.kept_rooms = batch_planner.keep(snapshot, plan)
        # A dispatcher that is alone loses no lock.
        instead = (
            find_alternatives(snapshot, plan, most=_MOST_ALTERNATIVES)
            if plan.starts and self._queue.shared
            else {}
        )
        # One call costs less than two, but takes longer than the first of them. A container that is
        # alone comes sooner to its command by two: it is made while the second one is answered.
        ready_images = view.ready_images if len(snapshot.queue) > 1 else ()
        for start in plan.starts:
            self._start(start, instead.get(start.uuid, ()), ready_images, now=now)
        if self._queue_sync.more:
            starting = {uuid for uuid, _ in self._state.starting}
            self._queue_sync.refill(self._aside | self._state.held(now=now).keys() | starting)

    def statuses(self) -> dict[str, WaitStatus]:
        """Reason why each container that has not started waits. Containers that fit no worker are
        recorded, and refused if this dispatcher is alone.
        """
        now = self._clock()
        statuses = observe.statuses(
            self._queue, self._fleet.view(), self._state, explain=self._planning.explain, now=now
        )
        self._metrics.note_statuses(statuses)
        misfits = {
            uuid: status.sentence for uuid, status in statuses.items() if status.category in MISFITS
        }
        self._aside = frozenset(
            uuid
            for uuid, status in statuses.items()
            if uuid in misfits or status.category in _PLACED
        )
        self._handle_misfits(misfits, now=now)
        for uuid in self._state.note_waits(statuses, self._queue, now=now):
            self._tell_waits(uuid, now=now)
        return statuses

    def _handle_misfits(self, misfits: Mapping[str, str], *, now: float) -> None:
        """Record the containers that fit no worker, with their sentences, and refuse those that
        have been so for long.
        """
        self._state.fits(misfits)
        overdue = {uuid for uuid in misfits if self._state.is_overdue_misfit(uuid, now=now)}
        for uuid, sentence in misfits.items():
            if self._state.is_news(uuid, sentence):
                self._decisions.note(uuid, DecisionKind.NOT_RUN, sentence)
            # A dispatcher that is alone fails containers that it can never run; others only report
            # them, as another dispatcher may have a larger worker.
            if uuid in overdue and self._only and self._state.may_act(uuid, now=now):
                self._do(uuid, "refuse", partial(self._actions.refuse, why=sentence), now=now)
        self.overdue = frozenset() if self._only else frozenset(overdue)

    def _tell_waits(self, uuid: str, *, now: float) -> None:
        """Record the waits of a container after its start, as the queue of a batch system shows
        them.
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
                    self._do(uuid, "kill", partial(self._actions.kill, number=number), now=now)
            case ReconcileAction.CLEAN:
                self._do(uuid, "clean", self._actions.clean, now=now)
            case ReconcileAction.REQUEUE:
                # Given back because it could not be started: without a pause it would be locked
                # again at once.
                if uuid not in self._state.held(now=now):
                    self._state.hold(uuid, _REQUEUED, now=now)
                self._do(uuid, "requeue", self._requeue, now=now)
            case ReconcileAction.CANCEL:
                self._do(uuid, "cancel", self._actions.cancel, now=now)

    def _reread(self, uuid: str) -> None:
        self._queue_sync.reread(uuid, after=self._state.read_after(uuid))

    def _start(
        self,
        start: StartDecision,
        alternatives: Sequence[str],
        ready_images: Sequence[str],
        *,
        now: float,
    ) -> None:
        # In the state before the task begins: the next step may come first, and must not start it
        # twice.
        self._state.engage(
            start.uuid, now=now, worker=start.worker, extra=start.extra, others=start.others
        )
        under_way = self._starting[start.uuid] = _StartUnderWay(start.uuid)
        self._tasks.create_task(self._carry_out_start(start, alternatives, ready_images, under_way))

    async def _carry_out_start(
        self,
        start: StartDecision,
        alternatives: Sequence[str],
        ready_images: Sequence[str],
        under_way: _StartUnderWay,
    ) -> None:
        record = self._queue.get(start.uuid)
        amounts = (
            record.amounts(start.extra)
            if record is not None and start.extra != Resources()
            else None
        )
        try:
            waited = self._state.tell_waits(start.uuid, now=self._clock())
            with self._state.offering(alternatives):
                locked = await self._actions.lock(
                    start.uuid,
                    alternatives=alternatives,
                    worker=start.worker,
                    others=start.others,
                    amounts=amounts,
                    ready_images=() if start.others else ready_images,
                    waited=waited,
                    on_locked=partial(self._note_lock, under_way),
                )
            passed = self._queue.get(start.uuid)
            if locked.uuid != start.uuid and passed is not None and passed.waiting:
                self._reread(start.uuid)
            await self._actions.start(locked, worker=start.worker, others=start.others)
            self._metrics.note_action("start", failed=False)
        except LadingError as error:
            self._metrics.note_action("start", failed=True)
            uuid = under_way.uuid
            event(_logger, "start failed", container=uuid, why=error)
            refused = isinstance(error, ExecutionError)
            again = "Trying again later." if refused else "Trying again in a moment."
            self._state.hold(uuid, f"{error} {again}", now=self._clock(), refused=refused)
            if isinstance(error, LockLost):
                # What this loop has not locked it must not give back.
                self._state.lose_lock(uuid)
                self._queue.shared = True
            elif ready_images and not under_way.is_locked:
                self._state.doubt_lock(uuid)
            # The lock or the start may have succeeded although no answer came: the record is read
            # again.
            self._state.lost(uuid, self._queue)
            self._reread(uuid)
            if not under_way.is_locked:
                self._doubt(alternatives, error)
        finally:
            self._starting.pop(under_way.uuid, None)
            self._state.release(under_way.uuid)
            self._wake.set()

    def _note_lock(self, under_way: _StartUnderWay, uuid: str) -> None:
        """A lock was given for `uuid`, the container of this start or an alternative of it. Raises
        Conflict while another action on the alternative is under way.
        """
        planned = under_way.uuid
        if uuid != planned:
            other_start = self._starting.get(uuid)
            if other_start is None and self._state.is_busy(uuid):
                raise Conflict(f"{uuid}: an earlier action on it is under way")
            if self._state.exchange(planned, uuid) and other_start is not None:
                # Its own call finds its container locked, and takes an alternative too.
                other_start.uuid = planned
                self._starting[planned] = other_start
            else:
                del self._starting[planned]
                self._state.hold(planned, _OUTPACED, now=self._clock())
        self._starting.pop(uuid, None)
        under_way.uuid, under_way.is_locked = uuid, True
        self._state.note_lock(uuid)

    def _doubt(self, alternatives: Sequence[str], error: LadingError) -> None:
        """A lock call that named these alternatives failed: their records are read again."""
        for uuid in alternatives:
            if not isinstance(error, LockLost) and not self._state.is_starting(uuid):
                # Each may have been locked although no answer came.
                self._state.hold(uuid, f"{error} Trying again in a moment.", now=self._clock())
                self._state.adopt([uuid])
                self._state.lost(uuid, self._queue)
            self._reread(uuid)

    async def _requeue(self, uuid: str) -> None:
        await self._actions.requeue(uuid)
        # Disowned after the call: as long as the record is not unlocked this dispatcher is
        # responsible.
        self._state.disown(uuid)

    def _do(
        self, uuid: str, name: str, action: Callable[[str], Awaitable[None]], *, now: float
    ) -> None:
        self._state.engage(uuid, now=now)
        self._tasks.create_task(self._carry_out(uuid, name, action))

    async def _carry_out(
        self, uuid: str, name: str, action: Callable[[str], Awaitable[None]]
    ) -> None:
        try:
            await action(uuid)
            self._state.succeeded(uuid)
            self._metrics.note_action(name, failed=False)
        except LadingError as error:
            self._metrics.note_action(name, failed=True)
            event(_logger, "action failed", container=uuid, why=error)
            self._state.retry(uuid, now=self._clock())
            self._reread(uuid)
        finally:
            self._state.release(uuid)
            self._wake.set()
