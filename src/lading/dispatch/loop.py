"""The dispatch loop: observe, plan, act.

A step is taken whenever something may have changed: an event about a record, a process that started
or ended, an action that is over, a pause that has run out. A step never waits; longer actions are
tasks of their own, one at a time for each container. So an event leads to lock and start at once,
and the end of a process to the next start.

`Actions` are the actions on one container, each complete in itself:

- An action either succeeds or raises an error of `lading.core.errors`; the next step decides about
  a failure, from the record read again. Losing a compare-and-set (to another dispatcher, a
  cancelled request) is normal.
- Every decision that users should be able to read later goes into the decision log
  (docs/spec/dispatch, section Reports).
- A record is given back or cancelled only after the fleet has removed the remains of its container:
  a fleet refuses that for a living supervisor, also for one that it did not know of, and then the
  record stays as it is.

Source: docs/spec/dispatch, section Parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from signal import Signals
from typing import Protocol, runtime_checkable

from lading.client.api import ApiClient
from lading.core.containers.container import ContainerState, DecisionKind
from lading.core.errors import Conflict, ExecutionError, Failure, LadingError, RequestError
from lading.core.quantities import format_time
from lading.core.resources import Resources
from lading.core.scheduling import batch_planner
from lading.core.scheduling.planning import (
    Category,
    DispatchPlan,
    Snapshot,
    StartDecision,
    TrackedContainer,
    WaitStatus,
)
from lading.core.scheduling.reconcile import ReconcileAction
from lading.core.scheduling.wait_reasons import MISFITS
from lading.dispatch import observe
from lading.dispatch.dispatch_trace import DispatchTrace
from lading.dispatch.fleet import Fleet, Spending, StartRequest, SupervisorProcess
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue import Queue
from lading.dispatch.queue_sync import QueueSync
from lading.dispatch.state import DispatchState
from lading.dispatch.status_publisher import DecisionLog
from lading.telemetry import event
from lading.tracing import OFF

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

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Reason why each container of the queue waits."""


class StaticPlanning:
    """Planning for a fixed set of workers, by `core.scheduling.batch_planner`."""

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        """The containers to start now, in order."""
        return batch_planner.plan(snapshot)

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Reason why each container of the queue waits."""
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
        now, view = self._clock(), self._fleet.view()
        self._metrics.look_at(view, self._queue)
        for uuid in self._state.see(view, self._queue):
            record = self._queue.get(uuid)
            # A final record never changes: it need not be read again.
            if record is None or not record.final:
                self._reread(uuid)
        for uuid, action in observe.differences(self._queue, view, self._state, now=now):
            self._begin(uuid, action, now=now)
        seen = observe.snapshot(self._queue, view, self._state, now=now, busy=self._busy())
        for uuid in observe.admitted(seen, self._queue, view):
            if self._state.may_act(uuid, now=now):
                self._do(uuid, "admit", self._actions.admit, now=now)
        for start in self._planning.plan(seen).starts:
            self._start(start, now=now)
        if self._queue_sync.more:
            starting = {uuid for uuid, _ in self._state.starting}
            self._queue_sync.refill(self._aside | self._state.held(now=now).keys() | starting)

    def statuses(self) -> dict[str, WaitStatus]:
        """Reason why each container that has not started waits. Containers that fit no worker are
        recorded, and refused if this dispatcher is alone.
        """
        now = self._clock()
        found = observe.statuses(
            self._queue, self._fleet.view(), self._state, explain=self._planning.explain, now=now
        )
        self._metrics.note_statuses(found)
        misfits = {uuid: one.sentence for uuid, one in found.items() if one.category in MISFITS}
        self._aside = frozenset(
            uuid for uuid, one in found.items() if uuid in misfits or one.category in _PLACED
        )
        self._handle_misfits(misfits, now=now)
        for uuid in self._state.note_waits(found, self._queue, now=now):
            self._tell_waits(uuid, now=now)
        return found

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
            self._metrics.note_action("start", failed=False)
        except LadingError as error:
            self._metrics.note_action("start", failed=True)
            event(_logger, "start failed", container=start.uuid, why=error)
            refused = isinstance(error, ExecutionError)
            again = "Trying again later." if refused else "Trying again in a moment."
            self._state.hold(start.uuid, f"{error} {again}", now=self._clock(), refused=refused)
            if isinstance(error, LockLost):
                # This loop does not hold the lock, so it must not give the container back.
                self._state.disown(start.uuid)
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


_CRASHED = "The supervisor of this container ended without reporting an outcome."
_ABANDONED = "It was locked with this dispatcher's token, and there is no supervisor or job for it."


class LockLost(Conflict):
    """Another dispatcher was first, or the container is not wanted any more."""


class Actions:
    """Carries out actions through the API and the fleet; stores the answers in the queue."""

    def __init__(
        self,
        client: ApiClient,
        fleet: Fleet,
        queue: Queue,
        decisions: DecisionLog,
        trace: DispatchTrace | None = None,
    ) -> None:
        self._trace = trace or DispatchTrace(OFF)
        self._client = client
        self._fleet = fleet
        self._queue = queue
        self._decisions = decisions
        self._fates: dict[str, SupervisorProcess] = {}

    async def start(
        self,
        uuid: str,
        *,
        worker: str,
        others: tuple[str, ...] = (),
        amounts: Mapping[str, int] | None = None,
        waited: str = "",
    ) -> None:
        """Lock, giving it these amounts if they are named, then start a supervisor, of a gang with
        `others` beside it.

        `waited` are its waits in words (`core.scheduling.wait_reasons`). Raises LockLost,
        Unavailable when the lock's outcome is not known or no process could be started now,
        ExecutionError or Conflict when the fleet refuses this container.
        """
        where = ", ".join(dict.fromkeys((worker, *others)))
        after = f"; it {waited}" if waited else ""
        self._decisions.note(
            uuid, DecisionKind.RUN, f"Decided to run it on {where}{after}.", waited=waited
        )
        try:
            body = {"known": True} | ({"runtime_constraints": dict(amounts)} if amounts else {})
            began = self._trace.now()
            with self._queue.locking(uuid):
                # Once: after a lost answer a second call would be refused because of the first, as
                # if another dispatcher had been quicker.
                answer = await self._client.action(
                    "containers", uuid, "lock", body=body, repeat=False
                )
                self._queue.answer(answer)
        except (RequestError, Conflict) as error:
            event(_logger, "lock lost", container=uuid, why=error)
            self._decisions.note(uuid, DecisionKind.LOCK_FAILED, f"Could not be locked: {error}")
            raise LockLost(f"Not started: {error}") from error
        token = answer.get("supervisor_token")
        if not token:
            raise ExecutionError(
                "The server gave no supervisor token with the lock;"
                " is it older than this dispatcher?"
            )
        try:
            record = self._queue.get(uuid)
            container = record or TrackedContainer(uuid=uuid)
            known = answer.get("known") or {}
            request = StartRequest(
                uuid=uuid,
                worker=worker,
                token=str(token),
                container=container,
                known=known,
                others=others,
            )
            with self._trace.starting(request, began=began):
                await self._fleet.start(request)
        except LadingError as error:
            self._decisions.note(
                uuid, DecisionKind.NOT_DISPATCHED, f"Could not be started on {worker}: {error}"
            )
            raise
        event(_logger, "container started", container=uuid, worker=worker)
        process = self._fleet.view().processes.get(uuid)
        where = (
            process.note
            if process is not None and process.note
            else f"Its supervisor was started on {worker}."
        )
        self._decisions.note(uuid, DecisionKind.DISPATCHED, where)

    async def admit(self, uuid: str) -> None:
        """Let a prepared container continue. Raises Unavailable."""
        await self._fleet.signal(uuid, Signals.SIGCONT)

    async def kill(self, uuid: str, *, number: Signals) -> None:
        """Tell the process to stop. Raises Unavailable."""
        event(_logger, "container stopped", container=uuid, signal=number.name)
        await self._fleet.signal(uuid, number)

    async def clean(self, uuid: str) -> None:
        """Remove the remains of a dead process. Raises Unavailable, Conflict if it is alive."""
        process = self._fleet.view().processes.get(uuid)
        if process is not None:
            # Kept before it leaves the view: `requeue` and `cancel` report how it ended.
            self._fates[uuid] = process
        # The remains are removed before the record is released: the next attempt may start on the
        # same machine the moment it is.
        await self._fleet.clean(uuid)

    def forget(self, uuid: str) -> None:
        """Forget the container: no action is needed any more."""
        self._fates.pop(uuid, None)

    async def requeue(self, uuid: str) -> None:
        """Give a locked container back. The API cancels it after too many locks."""
        await self._fleet.clean(uuid)
        answer = await self._client.action("containers", uuid, "unlock")
        self._queue.answer(answer)
        event(_logger, "container given back", container=uuid, state=answer.get("state"))
        decision, fate, _ = self._fate(uuid)
        self._decisions.note(uuid, decision, f"Given back to the queue: {fate}")

    async def cancel(self, uuid: str) -> None:
        """End the record of a running container whose process is gone."""
        await self._fleet.clean(uuid)
        process = self._fates.get(uuid)
        spent = (
            await self._spent(uuid, process.spending)
            if process is not None and process.spending
            else {}
        )
        decision, fate, failure = self._fate(uuid)
        status = {"error": _CRASHED, "errorDetail": fate, "failure": failure.value}
        changes = {"state": "Cancelled", "runtime_status": status, **spent}
        answer = await self._client.update("containers", uuid, changes)
        self._queue.answer(answer)
        event(_logger, "container cancelled", container=uuid, why=fate)
        self._decisions.note(uuid, decision, f"Cancelled: {fate}")

    async def refuse(self, uuid: str, *, why: str) -> None:
        """End the record of a waiting container that no dispatcher can ever run."""
        status = {"error": why, "failure": Failure.USER.value}
        answer = await self._client.update(
            "containers", uuid, {"state": "Cancelled", "runtime_status": status}
        )
        self._queue.answer(answer)
        event(_logger, "container refused", container=uuid, why=why)
        self._decisions.note(uuid, DecisionKind.NOT_RUN, f"Cancelled: {why}")

    async def _spent(self, uuid: str, spending: Spending) -> dict[str, object]:
        """The end of a container that ended with its machine, and its cost until then, at least the
        recorded cost.
        """
        record = await self._client.get("containers", uuid, select=("uuid", "started_at", "cost"))
        if not record.get("started_at"):
            return {}
        # The supervisor may have reported costs until a moment before its machine went.
        cost = max(float(record.get("cost") or 0.0), spending.since(str(record["started_at"])))
        return {"cost": cost, "finished_at": format_time(spending.end)}

    def _fate(self, uuid: str) -> tuple[DecisionKind, str, Failure]:
        """Sentence about the missing process: its end was seen, or it was never seen."""
        process = self._fates.pop(uuid, None)
        if process is None:
            return DecisionKind.ABANDONED, _ABANDONED, Failure.INFRASTRUCTURE
        return DecisionKind.CRASHED, process.fate or _CRASHED, process.failure
