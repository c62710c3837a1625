"""The operations of TES on container requests, with the token of the caller.

A task is a container request with the property `tes`; its state follows from the request and its
container (`core.tes.states`), so nothing is stored here.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from weakref import WeakValueDictionary

from lading.client.api import PAGE, ApiClient, Json, Record
from lading.client.retry import NO_RETRY
from lading.client.transport import Transport
from lading.core.containers.request import RequestState
from lading.core.data import filetree
from lading.core.errors import Invalid, NotFound, RequestError
from lading.core.quantities import format_time, later
from lading.core.tes import listing, mapping
from lading.core.tes.document import DocumentFault, InvalidTask, objects, read_task
from lading.core.tes.listing import TaskQuery, TaskView
from lading.core.tes.mapping import TaskSite
from lading.core.tes.outputs import TaskOutputs, find_outputs
from lading.core.tes.paging import PageCursor, is_after, make_page_token
from lading.core.tes.states import TaskState, is_shown, state_of
from lading.core.tes.views import (
    DESCRIBED,
    MAX_TEXT,
    TaskAttempt,
    describe_request,
    document_of,
    ended_steps,
    has_begun,
    show_task,
    text_end,
    warnings_of,
)
from lading.core.values import JsonObject

_REQUEST: Final = (
    "uuid",
    "state",
    "priority",
    "container_uuid",
    "attempted_container_uuids",
    "created_at",
    "output_uuid",
    "properties",
)
# What the state of a task follows from, and what its logs need too.
_STATE: Final = ("uuid", "state", "exit_code", "runtime_status")
_CONTAINER: Final = (
    *_STATE,
    "created_at",
    "started_at",
    "finished_at",
    "log",
    "cost",
)
# Seconds for which an Idempotency-Key is remembered.
_REMEMBERED: Final = 86400.0
# Pages of requests that one list call examines when a filter holds for few of them.
_MOST_PAGES: Final = 10
# Tasks of a page whose logs are read at once.
_TOGETHER: Final = 8
# Tasks that have ended well, whose outputs are known to be there.
_MOST_CHECKED: Final = 100_000
# The message of the API about an image that it does not know.
_IMAGE_FAULT: Final = re.compile(r'docker image "([^"]*)"')


@dataclass(frozen=True, slots=True)
class TaskCaller:
    """Who calls, by a token, and whether below the address of TES 1.0 clients."""

    token: str
    legacy: bool


class Tasks:
    """Tasks of all callers. `transport` leads to the API; `secret` signs tokens of pages."""

    def __init__(
        self, transport: Transport, *, site: TaskSite, secret: bytes, clock: Callable[[], datetime]
    ) -> None:
        self._transport = transport
        self._site = site
        self.secret = secret
        self._clock = clock
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._complete: OrderedDict[str, None] = OrderedDict()

    async def check(self, caller: TaskCaller) -> None:
        """Raise the error of the API for a token that it does not accept."""
        await self._api(caller).request("GET", "users/current")

    async def create(self, caller: TaskCaller, sent: Json, *, key: str = "") -> str:
        """Create a task; its id. With a `key` that the caller sent within a day, the id of the task
        that was created then. Raises InvalidTask, and the errors of the API.
        """
        task = read_task(sent, mapping.rules)
        if not key:
            return await self._create(caller, task, "")
        user = await self._api(caller).request("GET", "users/current")
        digest = hashlib.sha256(f"{user['uuid']} {key}".encode()).hexdigest()
        async with self._creating.setdefault(digest, asyncio.Lock()):
            since = later(format_time(self._clock()), -_REMEMBERED)
            known = await self._api(caller).list(
                "container_requests",
                filters=[
                    ["created_at", ">", since],
                    [f"properties.{mapping.IDEMPOTENCY}", "=", digest],
                ],
                select=["uuid"],
                limit=1,
            )
            return str(known[0]["uuid"]) if known else await self._create(caller, task, digest)

    async def _create(self, caller: TaskCaller, task: JsonObject, key: str) -> str:
        attributes = mapping.make_request(task, site=self._site, key=key)
        # A repeated create could make a second task.
        api = ApiClient(self._transport, caller.token, retry=NO_RETRY)
        try:
            made = await api.create("container_requests", attributes, select=["uuid"])
        except Invalid as error:
            named = _IMAGE_FAULT.search(error.message)
            # Of several executors, the first one with this image.
            images = [one["image"] for one in objects(task, "executors")]
            at = (
                f"/executors/{images.index(named[1])}/image" if named and named[1] in images else ""
            )
            raise InvalidTask([DocumentFault(at, error.message)]) from None
        return str(made["uuid"])

    async def get(self, caller: TaskCaller, uuid: str, view: TaskView) -> JsonObject:
        """A task. Raises NotFound, also for requests that are no tasks."""
        api = self._api(caller)
        more = ["mounts"] if view is TaskView.FULL else []
        request = await self._find(api, uuid, *more, "requesting_container_uuid")
        if mapping.PROPERTY not in request["properties"]:
            # A step of a run of WES: its TaskLog has this address.
            request["properties"] = await self._described(api, request)
        containers = await self._containers(api, [request], attempts=view is not TaskView.MINIMAL)
        return await self._show(api, caller, request, containers, view)

    async def find(self, caller: TaskCaller, query: TaskQuery) -> JsonObject:
        """A page of tasks, newest first. Raises the errors of the API."""
        if query.state is not None and not is_shown(query.state, legacy=caller.legacy):
            return {"tasks": []}
        api = self._api(caller)
        found, cursor = await self._scan(api, caller, query)
        # One more than the page tells whether there is another page.
        more, found = len(found) > query.size, found[: query.size]
        tasks: list[Json] = []
        containers = await self._containers(api, found, attempts=query.view is not TaskView.MINIMAL)
        for start in range(0, len(found), _TOGETHER):
            part = found[start : start + _TOGETHER]
            shown = (self._show(api, caller, one, containers, query.view) for one in part)
            tasks += await asyncio.gather(*shown)
        answer: JsonObject = {"tasks": tasks}
        if more:
            cursor = PageCursor(found[-1]["created_at"], found[-1]["uuid"])
        if cursor is not None:
            answer["next_page_token"] = make_page_token(
                cursor, listing.about(query), secret=self.secret
            )
        return answer

    async def cancel(self, caller: TaskCaller, uuid: str) -> None:
        """Cancel a task; nothing changes for one that has ended. Raises NotFound, Forbidden."""
        api = self._api(caller)
        request = await self._find(api, uuid)
        if request["state"] != RequestState.FINAL:
            await api.action("container_requests", request["uuid"], "cancel")

    def _api(self, caller: TaskCaller) -> ApiClient:
        return ApiClient(self._transport, caller.token)

    async def _find(self, api: ApiClient, uuid: str, *more: str) -> Record:
        try:
            found = await api.get("container_requests", uuid, select=[*_REQUEST, *more])
        except Invalid:
            raise NotFound(f"task {uuid[:60]!r} not found") from None
        if mapping.PROPERTY not in found["properties"] and not found.get(
            "requesting_container_uuid"
        ):
            raise NotFound(f"task {uuid[:60]!r} not found")
        return found

    async def _described(self, api: ApiClient, row: Record) -> JsonObject:
        """Properties with a document for a request that was not made by a create."""
        request = await api.get("container_requests", row["uuid"], select=DESCRIBED)
        task = describe_request(request)
        return {**row["properties"], mapping.PROPERTY: {"task": task, "warnings": []}}

    async def _scan(
        self, api: ApiClient, caller: TaskCaller, query: TaskQuery
    ) -> tuple[list[Record], PageCursor | None]:
        """The first requests of a page, one more than it has if there are; where the next call goes
        on, if the search was given up before its end.
        """
        conditions = listing.filters(query, legacy=caller.legacy)
        found: list[Record] = []
        cursor = query.after
        more = ["mounts"] if query.view is TaskView.FULL else []
        for _ in range(_MOST_PAGES):
            before = [["created_at", "<=", cursor.created_at]] if cursor else []
            page = await api.list(
                "container_requests",
                filters=[*conditions, *before],
                order=["created_at desc", "uuid desc"],
                select=[*_REQUEST, *more],
                limit=min(PAGE, query.size + 2),
            )
            rows = [one for one in page if is_after(cursor, one)]
            if not rows:
                return found, None
            found += await self._in_state(api, caller, rows, query.state)
            if len(found) > query.size:
                return found, None
            cursor = PageCursor(rows[-1]["created_at"], rows[-1]["uuid"])
        return found, cursor

    async def _in_state(
        self, api: ApiClient, caller: TaskCaller, rows: list[Record], state: TaskState | None
    ) -> list[Record]:
        if state is None:
            return rows
        containers = await self._containers(api, rows)
        return [row for row in rows if await self._state(api, caller, row, containers) == state]

    async def _containers(
        self, api: ApiClient, rows: Iterable[Record], *, attempts: bool = False
    ) -> dict[str, Record]:
        """The containers of requests by uuid, as states need them; with `attempts` the earlier ones
        too, as logs need them.
        """
        wanted: dict[str, None] = {}
        for row in rows:
            earlier = row["attempted_container_uuids"] if attempts else []
            wanted |= dict.fromkeys(one for one in (*earlier, row["container_uuid"]) if one)
        uuids = list(wanted)
        found: dict[str, Record] = {}
        for start in range(0, len(uuids), PAGE):
            page = await api.list(
                "containers",
                filters=[["uuid", "in", uuids[start : start + PAGE]]],
                select=_CONTAINER if attempts else _STATE,
                limit=PAGE,
            )
            found |= {one["uuid"]: one for one in page}
        return found

    async def _state(
        self, api: ApiClient, caller: TaskCaller, row: Record, containers: Mapping[str, Record]
    ) -> TaskState:
        container = containers.get(row["container_uuid"] or "")
        state = state_of(row, container, legacy=caller.legacy)
        if state is not TaskState.COMPLETE or row["uuid"] in self._complete:
            return state
        outputs, _ = await self._outputs(api, row)
        if outputs.missing:
            return state_of(row, container, legacy=caller.legacy, lacks_outputs=True)
        self._complete[row["uuid"]] = None
        if len(self._complete) > _MOST_CHECKED:
            self._complete.popitem(last=False)
        return state

    async def _outputs(self, api: ApiClient, row: Record) -> tuple[TaskOutputs, str]:
        """The outputs of a task, and the portable data hash of their collection; none while there
        is no collection, or when it was deleted.
        """
        task = document_of(row)
        if not row["output_uuid"] or not task.get("outputs"):
            return TaskOutputs(), ""
        try:
            found = await api.get(
                "collections",
                row["output_uuid"],
                select=["portable_data_hash", "unsigned_manifest_text"],
            )
        except NotFound:
            return TaskOutputs(), ""
        tree = filetree.from_manifest(found["unsigned_manifest_text"])
        return find_outputs(task, tree), str(found["portable_data_hash"])

    async def _show(
        self,
        api: ApiClient,
        caller: TaskCaller,
        row: Record,
        containers: Mapping[str, Record],
        view: TaskView,
    ) -> JsonObject:
        state = await self._state(api, caller, row, containers)
        attempts: list[TaskAttempt] = []
        if view is not TaskView.MINIMAL:
            uuids = [*row["attempted_container_uuids"], row["container_uuid"]]
            known = [containers[one] for one in uuids if one in containers]
            for number, container in enumerate(known, 1):
                last = number == len(known)
                # Clients of TES 1.0 read the first log or the last one: there is one for them.
                if last or (has_begun(container) and not caller.legacy):
                    made = self._attempt(api, row, container, number, last=last, view=view)
                    attempts.append(await made)
        return show_task(row, state, view=view, attempts=attempts)

    async def _attempt(
        self,
        api: ApiClient,
        row: Record,
        container: Record,
        number: int,
        *,
        last: bool,
        view: TaskView,
    ) -> TaskAttempt:
        outputs, output = await self._outputs(api, row) if last else (TaskOutputs(), "")
        if view is not TaskView.FULL:
            return TaskAttempt(container=container, number=number, outputs=outputs, output=output)
        notes = [*warnings_of(row)] if last else []
        if container["created_at"] < row["created_at"]:
            notes.append(f"reused: container {container['uuid']} was run for an earlier request")
        if last and row["state"] != RequestState.FINAL and not has_begun(container):
            status = await api.action(
                "container_requests", row["uuid"], "container_status", method="GET"
            )
            if status["scheduling_status"]:
                notes.append(status["scheduling_status"])
        streams = [
            (
                await self._stream(api, row, container, "stdout.txt", one.get("stdout")),
                await self._stream(api, row, container, "stderr.txt", one.get("stderr")),
            )
            for one in ended_steps(container)
        ]
        return TaskAttempt(
            container=container,
            number=number,
            outputs=outputs,
            output=output,
            streams=tuple(streams),
            notes=tuple(notes),
        )

    async def _stream(
        self, api: ApiClient, row: Record, container: Record, name: str, span: list[int] | None
    ) -> str:
        """The end of a stream of a container, or of the part of it between two bytes; "" where
        there is none.
        """
        path = f"container_requests/{row['uuid']}/log/{container['uuid']}/{name}"
        # Twice as much as is shown: the times of the lines are taken away.
        wanted, size = f"-{2 * MAX_TEXT}", -1
        if span is not None:
            start, end = span
            if start == end:
                return ""
            wanted, size = f"{max(start, end - 2 * MAX_TEXT)}-{end - 1}", end - start
        try:
            answer = await api.raw("GET", path, headers={"Range": f"bytes={wanted}"})
        except RequestError as error:
            # An empty file has no range of bytes.
            if error.status in (404, 416):
                return ""
            raise
        whole = answer.headers.get("content-range", "").rpartition("/")[2]
        if size < 0:
            size = int(whole) if whole.isdigit() else len(answer.body)
        return text_end(answer.body, size, f"lading request log {row['uuid']}")
