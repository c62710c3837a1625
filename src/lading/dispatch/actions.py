"""The actions of a dispatcher on one container, each complete in itself.

- An action either succeeds or raises an error of `lading.core.errors`; the next step decides about
  a failure, from the record read again. Losing a compare-and-set (to another dispatcher, a
  cancelled request) is normal.
- Every decision that users should be able to read later goes into the decision log
  (docs/spec/dispatch, section Reports).
- Nothing is done to a process or machine once the lease of the token has expired: another
  dispatcher may have taken it over (`dispatch.lease`). The server refuses calls then.
- A record is given back or cancelled only after the fleet has removed the remains of its container:
  a fleet refuses that for a living supervisor, also for one that it did not know of, and then the
  record stays as it is.

Source: docs/spec/dispatch, sections Parts and Locking.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from signal import Signals

from lading.client.api import ApiClient
from lading.core.containers.container import ContainerState, DecisionKind
from lading.core.errors import Conflict, ExecutionError, Failure, LadingError, RequestError
from lading.core.quantities import format_time
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import Json, JsonObject
from lading.dispatch.dispatch_trace import DispatchTrace
from lading.dispatch.fleet import Fleet, Spending, StartRequest, SupervisorProcess
from lading.dispatch.queue import Queue
from lading.dispatch.status_publisher import DecisionLog
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
_CRASHED = "The supervisor of this container ended without reporting an outcome."
_ABANDONED = "It was locked with this dispatcher's token, and there is no supervisor or job for it."


class LockLost(Conflict):
    """Another dispatcher was first, or the container is not wanted any more."""


@dataclass(frozen=True, slots=True)
class LockAnswer:
    """A container that was locked, with its supervisor's token, its record and its own token.
    `began` is the time of the call on the clock of the trace.
    """

    uuid: str
    token: str = field(repr=False)
    records: JsonObject = field(repr=False)
    began: float
    is_started: bool = False
    """The container is Running."""


class Actions:
    """Carries out actions through the API and the fleet; stores the answers in the queue."""

    def __init__(
        self,
        client: ApiClient,
        fleet: Fleet,
        queue: Queue,
        decisions: DecisionLog,
        trace: DispatchTrace | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises Conflict where this process may not act any more. `trace` is None on a
        site that traces nothing.
        """
        self._check = check
        self._trace = trace
        self._client = client
        self._fleet = fleet
        self._queue = queue
        self._decisions = decisions
        self._fates: dict[str, SupervisorProcess] = {}

    async def lock(
        self,
        uuid: str,
        *,
        worker: str,
        on_locked: Callable[[str], None],
        alternatives: Sequence[str] = (),
        others: tuple[str, ...] = (),
        amounts: Mapping[str, int] | None = None,
        ready_images: Sequence[str] = (),
        waited: str = "",
    ) -> LockAnswer:
        """Lock the container, or else the first of `alternatives` that can be locked; give it these
        amounts if they are named. Calls `on_locked` with the uuid of the container that was locked.
        It may be Running then, if its worker has its image ready (`FleetView.ready_images`).

        `waited` are its waits in words (`core.scheduling.wait_reasons`). Raises LockLost,
        Unavailable when the lock's outcome is not known.
        """
        where = ", ".join(dict.fromkeys((worker, *others)))
        after = f"; it {waited}" if waited else ""
        self._decisions.note(
            uuid, DecisionKind.RUN, f"Decided to run it on {where}{after}.", waited=waited
        )
        body: dict[str, Json] = {"known": True}
        if amounts:
            body["runtime_constraints"] = dict(amounts)
        if alternatives:
            body["alternatives"] = list(alternatives)
        if ready_images:
            body["ready_images"] = list(ready_images)
        began = self._trace.now() if self._trace is not None else 0.0
        try:
            with self._queue.locking(uuid), self._queue.fetch() as ticket:
                # Once: after a lost answer a second call would be refused because of the first, as
                # if another dispatcher had been quicker.
                answer = await self._client.action(
                    "containers", uuid, "lock", body=body, repeat=False
                )
                locked = str(answer["uuid"])
                on_locked(locked)
                self._queue.answer(answer)
                self._queue.pass_over(answer.get("passed") or (), ticket=ticket)
        except (RequestError, Conflict) as error:
            event(_logger, "lock lost", container=uuid, why=error)
            self._decisions.note(uuid, DecisionKind.LOCK_FAILED, f"Could not be locked: {error}")
            raise LockLost(f"Not started: {error}") from error
        if locked != uuid:
            event(_logger, "alternative locked", container=locked, planned=uuid)
            self._decisions.note(
                uuid, DecisionKind.LOCK_FAILED, "Could not be locked: another dispatcher was first."
            )
            self._decisions.note(locked, DecisionKind.RUN, f"Decided to run it on {where}.")
        return LockAnswer(
            locked,
            str(answer.get("supervisor_token") or ""),
            answer.get("known") or {},
            began,
            is_started=answer.get("state") == ContainerState.RUNNING,
        )

    async def start(self, locked: LockAnswer, *, worker: str, others: tuple[str, ...] = ()) -> None:
        """Start a supervisor for a container that was locked, of a gang with `others` beside it.

        Raises Unavailable when no process could be started now, ExecutionError or Conflict when the
        fleet refuses this container.
        """
        self._check()
        uuid = locked.uuid
        if not locked.token:
            raise ExecutionError(
                "The server gave no supervisor token with the lock;"
                " is it older than this dispatcher?"
            )
        try:
            request = StartRequest(
                uuid=uuid,
                worker=worker,
                token=locked.token,
                container=self._queue.get(uuid) or TrackedContainer(uuid=uuid),
                records=locked.records,
                others=others,
                is_started=locked.is_started,
            )
            trace = self._trace
            with trace.starting(request, began=locked.began) if trace else nullcontext():
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
        self._check()
        await self._fleet.signal(uuid, Signals.SIGCONT)

    async def kill(self, uuid: str, *, number: Signals) -> None:
        """Tell the process to stop. Raises Unavailable."""
        self._check()
        event(_logger, "container stopped", container=uuid, signal=number.name)
        await self._fleet.signal(uuid, number)

    async def clean(self, uuid: str) -> None:
        """Remove the remains of a dead process. Raises Unavailable, Conflict if it is alive."""
        self._check()
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
        self._check()
        await self._fleet.clean(uuid)
        ended = self._fates.get(uuid)
        if ended is not None and ended.failure is not Failure.INFRASTRUCTURE:
            # Where this was the last attempt, the API cancels the container with this class.
            status = {"failure": ended.failure.value, "errorDetail": ended.fate}
            await self._client.update("containers", uuid, {"runtime_status": status})
        answer = await self._client.action("containers", uuid, "unlock")
        self._queue.answer(answer)
        event(_logger, "container given back", container=uuid, state=answer.get("state"))
        decision, fate, _ = self._fate(uuid)
        self._decisions.note(uuid, decision, f"Given back to the queue: {fate}")

    async def cancel(self, uuid: str) -> None:
        """End the record of a running container whose process is gone."""
        self._check()
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
        """End the record of a waiting container that no dispatcher can ever run.

        Locked first: a dispatcher may end what it holds, and nothing else. A container that it does
        not end is given back like any container without a process.
        """
        with self._queue.locking(uuid):
            locked = await self._client.action("containers", uuid, "lock", repeat=False)
            self._queue.answer(locked)
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
