"""Creates tasks: checks them, makes their requests, and stores their transfers.

A call with an Idempotency-Key makes one task, also where it is repeated at another server.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient, Json
from lading.client.retry import NO_RETRY
from lading.client.run_records import reading
from lading.client.transport import Transport
from lading.core.containers.request_phases import RequestState
from lading.core.drawing.step_names import step_name
from lading.core.errors import Forbidden, Invalid, Unavailable
from lading.core.quantities import format_time, later
from lading.core.runs import attempts
from lading.core.tes import document_shapes, mapping
from lading.core.tes.document import InvalidTask, read_task
from lading.core.tes.document_shapes import DocumentFault, objects
from lading.core.tes.mapping import TaskSite
from lading.core.tes.transfers import TaskTransfer, first_phase, is_fetched
from lading.core.values import JsonObject
from lading.store.transfers import StoredTransfers
from lading.tes.task_views import TaskCaller
from lading.tes.transfers.worker import TransferWorker

# Seconds for which an Idempotency-Key is remembered.
_REMEMBERED: Final = 86400.0
# Seconds between two looks whether another call has created the task of a key, and their number.
_TURN: Final = 0.25
_TURNS: Final = 80
# The message of the API about an image that it does not know.
_IMAGE_FAULT: Final = re.compile(r'docker image "([^"]*)"')


class TaskCreator:
    """Creates tasks of all callers. `transport` leads to the API."""

    def __init__(
        self,
        transport: Transport,
        transfers: StoredTransfers,
        worker: TransferWorker,
        *,
        site: TaskSite,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._transfers = transfers
        self._worker = worker
        self._site = site
        self._clock = clock
        self._sleep = sleep

    async def create(self, caller: TaskCaller, sent: Json, *, key: str = "") -> str:
        """Create a task; its id. With a `key` that the caller sent within a day, the id of the task
        that was created then. Raises InvalidTask, and the errors of the API.
        """
        task = read_task(sent, functools.partial(mapping.rules, site=self._site))
        if not key:
            return await self._create(caller, task, "")
        user = await ApiClient(self._transport, caller.token).request("GET", "users/current")
        owner = str(user["uuid"])
        digest = hashlib.sha256(f"{owner} {key}".encode()).hexdigest()
        for _ in range(_TURNS):
            known = await self._claim(digest)
            if known is None:
                return await self._create_once(caller, task, digest, user=owner)
            if known:
                return known
            # Another call, maybe at another server, creates the task at this moment.
            await self._sleep(_TURN)
        raise Unavailable("the task of this Idempotency-Key is still being created; try again")

    async def _claim(self, digest: str) -> str | None:
        now = format_time(self._clock())
        return await self._transfers.claim_key(
            digest, now=now, since=later(now, -_REMEMBERED), stale=later(now, -_TURNS * _TURN)
        )

    async def _create_once(
        self, caller: TaskCaller, task: JsonObject, digest: str, *, user: str
    ) -> str:
        """Create the task of a key that this call has claimed."""
        uuid = ""
        try:
            # A server may have ended between the creation of a task and the note of it.
            earlier = await ApiClient(self._transport, caller.token).list(
                "container_requests",
                filters=[
                    [f"properties.{mapping.IDEMPOTENCY}", "=", digest],
                    # Others who know the key could put it on a request of theirs.
                    ["modified_by_user_uuid", "=", user],
                ],
                select=["uuid", "created_at"],
                limit=1,
            )
            since = later(format_time(self._clock()), -_REMEMBERED)
            if earlier and earlier[0]["created_at"] > since:
                uuid = str(earlier[0]["uuid"])
                await self._store_transfer(caller, uuid, task, digest)
            else:
                uuid = await self._create(caller, task, digest)
        finally:
            await self._transfers.settle_key(digest, uuid)
        return uuid

    async def _create(self, caller: TaskCaller, task: JsonObject, key: str) -> str:
        attributes = mapping.make_request(task, site=self._site, key=key)
        # A repeated create could make a second task.
        api = ApiClient(self._transport, caller.token, retry=NO_RETRY)
        try:
            attributes |= await self._membership(caller, task, attributes)
            if attributes["state"] == RequestState.UNCOMMITTED:
                await self._check_draft(api, task, attributes)
            made = await api.create("container_requests", attributes, select=["uuid"])
        except Invalid as error:
            raise InvalidTask([DocumentFault(_place_of(error, task), error.message)]) from None
        await self._store_transfer(caller, str(made["uuid"]), task, key)
        return str(made["uuid"])

    async def _membership(
        self, caller: TaskCaller, task: JsonObject, attributes: JsonObject
    ) -> JsonObject:
        """The attributes of a task that is a step of a run, by its tags; {} without. Raises
        Invalid, also for a name that no run may have.
        """
        tags = {name: str(value) for name, value in document_shapes.mapping(task, "tags").items()}
        if not (name := tags.get("lading.run", "")):
            return {}
        begun = await reading.begin(
            ApiClient(self._transport, caller.token),
            name,
            project=tags.get("lading.project"),
            # Tasks come one by one: all with one tag are one attempt.
            session=tags.get("lading.session", "TES"),
            source={"kind": "TES"},
        )
        step = tags.get("lading.step") or step_name(str(attributes.get("name") or ""))
        marks: JsonObject = {attempts.ATTEMPT: begun["attempt"], attempts.STEP: step}
        stored = attributes.get("properties")
        properties = stored if isinstance(stored, dict) else {}
        return {"owner_uuid": begun["uuid"], "properties": {**properties, **marks}}

    async def _check_draft(self, api: ApiClient, task: JsonObject, attributes: JsonObject) -> None:
        """Check the images and resources of a task, so that no inputs are fetched for a task that
        cannot run. Raises Invalid.
        """
        draft = mapping.with_places(task, attributes, site=self._site)
        # Tokens of limited scopes may create requests only: then the commit tells.
        with contextlib.suppress(Forbidden):
            await api.action("container_requests", None, "preview", body=draft)

    async def _store_transfer(
        self, caller: TaskCaller, uuid: str, task: JsonObject, key: str
    ) -> None:
        """Store the inputs to fetch and the outputs to deliver for a task."""
        phase = first_phase(task, self._site.roots)
        if phase is None:
            return
        user = await ApiClient(self._transport, caller.token).request("GET", "users/current")
        request = mapping.make_request(task, site=self._site, key=key)
        await self._transfers.add(
            TaskTransfer(
                request_uuid=uuid,
                user_uuid=str(user["uuid"]),
                phase=phase,
                task={**task, "inputs": [*self._fetched_inputs(task)]},
                request={name: request[name] for name in mapping.RECIPE if name in request},
            )
        )
        self._worker.wake()

    def _fetched_inputs(self, task: JsonObject) -> Iterator[JsonObject]:
        """The inputs that the server fetches for a task. The request mounts all further inputs."""
        for item in objects(task, "inputs"):
            if is_fetched(item, self._site.roots):
                yield item


def _place_of(error: Invalid, task: JsonObject) -> str:
    """The JSON pointer of the part of a task that the API refused; "" where it names none."""
    if error.message.startswith("owner_uuid:"):
        return "/tags/lading.project"
    if error.message.startswith("name:"):
        return "/tags/lading.run"
    named = _IMAGE_FAULT.search(error.message)
    # Of several executors, the first one with this image.
    images = [executor["image"] for executor in objects(task, "executors")]
    return f"/executors/{images.index(named[1])}/image" if named and named[1] in images else ""
