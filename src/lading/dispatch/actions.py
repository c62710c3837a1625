"""The acts of a dispatcher, each on one container, each complete in itself.

An act either succeeds or raises an error of `lading.core.errors`; what a failure means is decided at the next step,
from the record read again. Losing a compare-and-set (another dispatcher, a cancelled request) is normal.

What users should be able to read later becomes a row in `logs` (seed 003 "Create events/logs"): failed starts,
crashed and abandoned containers that were cleared up. Locks and starts are audit rows of the container already.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from signal import Signals

from lading.client.api import ApiClient
from lading.core.errors import Conflict, ExecutionError, Failure, LadingError, RequestError, Unavailable
from lading.dispatch.fleet import Assignment, Fleet
from lading.dispatch.queue import Queue
from lading.telemetry import event

_logger = logging.getLogger("lading.dispatch")
_CRASHED = "The supervisor of this container ended without reporting an outcome."


class LockLost(Conflict):
    """Another dispatcher was first, or the container is not wanted any more."""


class Actions:
    """Acts through the API and the fleet; learns answers into the queue."""

    def __init__(self, client: ApiClient, fleet: Fleet, queue: Queue) -> None:
        self._client = client
        self._fleet = fleet
        self._queue = queue

    async def start(self, uuid: str, *, worker: str, amounts: Mapping[str, int] | None = None) -> None:
        """Lock, giving it these amounts if they are named, then start a supervisor.

        Raises LockLost, Unavailable when the lock's outcome is not known or no process could be started now,
        ExecutionError or Conflict when the fleet refuses this container.
        """
        try:
            body = {"runtime_constraints": dict(amounts)} if amounts else None
            answer = await self._client.action("containers", uuid, "lock", body=body)
        except (RequestError, Conflict) as error:
            event(_logger, "lock lost", container=uuid, why=error)
            raise LockLost(f"Not started: {error}") from error
        token = answer.get("supervisor_token")
        self._queue.answer(answer)
        if not token:
            raise ExecutionError("The server gave no supervisor token with the lock; is it older than this dispatcher?")
        try:
            await self._fleet.start(Assignment(uuid=uuid, worker=worker, token=str(token)))
        except LadingError as error:
            if not isinstance(error, Unavailable):
                await self._tell(uuid, f"Could not be started on {worker}: {error}")
            raise
        event(_logger, "container started", container=uuid, worker=worker)

    async def kill(self, uuid: str, *, number: Signals) -> None:
        """Tell the process to stop. Raises Unavailable."""
        event(_logger, "container stopped", container=uuid, signal=number.name)
        await self._fleet.signal(uuid, number)

    async def clean(self, uuid: str) -> None:
        """Clear away what a dead process left. Raises Unavailable, Conflict when it lives after all."""
        await self._fleet.clean(uuid)

    async def requeue(self, uuid: str) -> None:
        """Give a locked container back. The API cancels it after too many locks."""
        answer = await self._client.action("containers", uuid, "unlock")
        self._queue.answer(answer)
        event(_logger, "container given back", container=uuid, state=answer.get("state"))
        await self._tell(uuid, "Given back to the queue: locked by this dispatcher, with no process to run it.")

    async def cancel(self, uuid: str) -> None:
        """End the record of a running container whose process is gone."""
        status = {"error": _CRASHED, "failure": Failure.INFRASTRUCTURE.value}
        answer = await self._client.update("containers", uuid, {"state": "Cancelled", "runtime_status": status})
        self._queue.answer(answer)
        event(_logger, "container cancelled", container=uuid, why="no process")
        await self._tell(uuid, f"Cancelled: {_CRASHED}")

    async def _tell(self, uuid: str, text: str) -> None:
        row = {"object_uuid": uuid, "event_type": "dispatch", "summary": text, "properties": {"text": text}}
        try:
            await self._client.create("logs", row)
        except LadingError as error:
            event(_logger, "log row not written", container=uuid, why=error)
