"""The operations of TES on container requests, with the token of the caller.

A task is a container request with the property `tes`; its state follows from the request, its
container (`core.tes.states`), and, with inputs or outputs by URL, from its transfer (`transfers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lading.client.api import PAGE, ApiClient, Json, Record
from lading.client.retry import NO_RETRY
from lading.client.transport import Transport
from lading.core.containers.request_phases import RequestState
from lading.core.data import filetree
from lading.core.errors import Forbidden, Invalid, NotFound, RequestError, TooLarge, Unavailable
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time, later, parse_time
from lading.core.tes import listing, mapping
from lading.core.tes.document import DocumentFault, InvalidTask, objects, read_task
from lading.core.tes.listing import TaskQuery, TaskView
from lading.core.tes.mapping import TaskSite
from lading.core.tes.outputs import TaskOutputs, find_outputs
from lading.core.tes.paging import PageCursor, is_after, make_page_token, merge_pages
from lading.core.tes.states import TaskState, is_awaited, is_shown, state_of, transfer_phase
from lading.core.tes.transfers import TaskTransfer, TransferPhase, first_phase, is_fetched
from lading.core.tes.views import (
    DESCRIBED,
    MAX_TEXT,
    TaskAttempt,
    describe_request,
    document_of,
    ended_steps,
    has_begun,
    has_transfers,
    show_task,
    text_end,
    warnings_of,
    why_not_reused,
)
from lading.core.values import JsonObject
from lading.store.transfers import StoredTransfers
from lading.tes.transfers.worker import TransferWorker

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
# Attributes that give the state of a task, and further ones for its logs.
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
# Seconds between two looks whether another call has created the task of a key, and their number.
_TURN: Final = 0.25
_TURNS: Final = 80
# Seconds between two looks whether a task has ended, the first and the longest, and calls that wait
# for an end at a time: further ones are answered at once.
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
_MOST_WAITING: Final = 16
# The message of the API about an image that it does not know.
_IMAGE_FAULT: Final = re.compile(r'docker image "([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Containers and transfers of the tasks of a call, by uuid."""

    containers: Mapping[str, Record]
    transfers: Mapping[str, TaskTransfer]


@dataclass(frozen=True, slots=True)
class TaskCaller:
    """Token of a caller; `legacy`: the call is below the address of TES 1.0 clients."""

    token: str
    legacy: bool


class Tasks:
    """Tasks of all callers. `transport` leads to the API; `secret` signs tokens of pages;
    `full_wait`: seconds after the creation of a task in which a FULL view waits for its end.
    """

    def __init__(
        self,
        transport: Transport,
        transfers: StoredTransfers,
        worker: TransferWorker,
        *,
        site: TaskSite,
        secret: bytes,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        full_wait: float = 0.0,
    ) -> None:
        self._full_wait = full_wait
        self._waiting = 0
        self._transport = transport
        self._transfers = transfers
        self._worker = worker
        self._sleep = sleep
        self._site = site
        self.secret = secret
        self._clock = clock
        self._complete: OrderedDict[str, None] = OrderedDict()

    async def check(self, caller: TaskCaller) -> None:
        """Raise the error of the API for a token that it does not accept."""
        await self._api(caller).request("GET", "users/current")

    async def create(self, caller: TaskCaller, sent: Json, *, key: str = "") -> str:
        """Create a task; its id. With a `key` that the caller sent within a day, the id of the task
        that was created then. Raises InvalidTask, and the errors of the API.
        """
        task = read_task(sent, functools.partial(mapping.rules, site=self._site))
        if not key:
            return await self._create(caller, task, "")
        user = await self._api(caller).request("GET", "users/current")
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
        made = ""
        try:
            # A server may have ended between the creation of a task and the note of it.
            known = await self._api(caller).list(
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
            if known and known[0]["created_at"] > since:
                made = str(known[0]["uuid"])
                await self._store_transfer(caller, made, task, digest)
            else:
                made = await self._create(caller, task, digest)
        finally:
            await self._transfers.settle_key(digest, made)
        return made

    async def _create(self, caller: TaskCaller, task: JsonObject, key: str) -> str:
        attributes = mapping.make_request(task, site=self._site, key=key)
        # A repeated create could make a second task.
        api = ApiClient(self._transport, caller.token, retry=NO_RETRY)
        try:
            if attributes["state"] == RequestState.UNCOMMITTED:
                await self._check_draft(api, task, attributes)
            made = await api.create("container_requests", attributes, select=["uuid"])
        except Invalid as error:
            raise InvalidTask([DocumentFault(_place_of(error, task), error.message)]) from None
        await self._store_transfer(caller, str(made["uuid"]), task, key)
        return str(made["uuid"])

    async def _check_draft(self, api: ApiClient, task: JsonObject, attributes: JsonObject) -> None:
        """Check images and resources of a task before its inputs are fetched: none are for a task
        that cannot run. Raises Invalid.
        """
        draft = mapping.with_places(task, attributes, site=self._site)
        # Tokens of limited scopes may create requests only: then the commit tells.
        with contextlib.suppress(Forbidden):
            await api.action("container_requests", None, "preview", body=draft)

    async def _store_transfer(
        self, caller: TaskCaller, uuid: str, task: JsonObject, key: str
    ) -> None:
        """Store what is to be fetched and delivered for a task."""
        phase = first_phase(task, self._site.roots)
        if phase is None:
            return
        user = await self._api(caller).request("GET", "users/current")
        request = mapping.make_request(task, site=self._site, key=key)
        await self._transfers.add(
            TaskTransfer(
                request_uuid=uuid,
                user_uuid=str(user["uuid"]),
                phase=phase,
                task={**task, "inputs": [*self._transferred(task)]},
                request={name: request[name] for name in mapping.RECIPE if name in request},
            )
        )
        self._worker.wake()

    async def get(self, caller: TaskCaller, uuid: str, view: TaskView) -> JsonObject:
        """A task. The view FULL of a young task waits for its end as long as the site says. Raises
        NotFound, also for requests that are no tasks.
        """
        found = await self._get(caller, uuid, view)
        if view is TaskView.FULL and await self._has_waited(caller, found):
            found = await self._get(caller, uuid, view)
        return found

    async def _has_waited(self, caller: TaskCaller, shown: JsonObject) -> bool:
        """Wait for the end of a task that a call shows; whether there was a need."""
        if self._waiting >= _MOST_WAITING:
            return False
        uuid, state = str(shown["id"]), TaskState(str(shown["state"]))
        created, pause = parse_time(str(shown["creation_time"])), 0.0
        self._waiting += 1
        try:
            while is_awaited(state, self._age(created), self._full_wait):
                pause = min(2 * pause or _FIRST_PAUSE, _LONGEST_PAUSE)
                await self._sleep(pause)
                state = TaskState(str((await self._get(caller, uuid, TaskView.MINIMAL))["state"]))
        finally:
            self._waiting -= 1
        return pause > 0

    def _age(self, created: datetime) -> float:
        return (self._clock() - created).total_seconds()

    async def _get(self, caller: TaskCaller, uuid: str, view: TaskView) -> JsonObject:
        api = self._api(caller)
        more = ["mounts"] if view is TaskView.FULL else []
        request = await self._find(api, uuid, *more, "requesting_container_uuid")
        if mapping.PROPERTY not in request["properties"]:
            # A step of a run of WES: its TaskLog has this address.
            request["properties"] = await self._described(api, request)
        known = await self._known(api, [request], attempts=view is not TaskView.MINIMAL)
        return await self._show(api, caller, request, known, view)

    async def find(self, caller: TaskCaller, query: TaskQuery) -> JsonObject:
        """A page of tasks, newest first. Raises the errors of the API."""
        if query.state is not None and not is_shown(query.state, legacy=caller.legacy):
            return {"tasks": []}
        api = self._api(caller)
        found, cursor = await self._scan(api, caller, query)
        # One more than the page tells whether there is another page.
        more, found = len(found) > query.size, found[: query.size]
        tasks: list[Json] = []
        known = await self._known(api, found, attempts=query.view is not TaskView.MINIMAL)
        for start in range(0, len(found), _TOGETHER):
            part = found[start : start + _TOGETHER]
            shown = (self._show(api, caller, one, known, query.view) for one in part)
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
        if request["state"] != RequestState.FINAL or has_transfers(request):
            # The API refuses it to callers who may not write the request.
            await api.action("container_requests", request["uuid"], "cancel")
        if has_transfers(request):
            phases = [TransferPhase.FETCHING, TransferPhase.DELIVERING]
            if request["state"] == RequestState.FINAL:
                phases.append(TransferPhase.RUNNING)
            await self._transfers.move(
                request["uuid"], phases, TransferPhase.CANCELLED, note="cancelled"
            )
            self._worker.stop(request["uuid"])

    def _transferred(self, task: JsonObject) -> Iterator[JsonObject]:
        """The inputs that are fetched for a task. The mounts of its request have the others."""
        for one in objects(task, "inputs"):
            if is_fetched(one, self._site.roots):
                yield one

    def _api(self, caller: TaskCaller) -> ApiClient:
        return ApiClient(self._transport, caller.token)

    async def _find(self, api: ApiClient, uuid: str, *more: str) -> Record:
        # Other texts could lead to another address of the API.
        if not is_uuid(uuid, Infix.REQUEST):
            raise NotFound(f"task {uuid[:60]!r} not found")
        try:
            found = await api.get("container_requests", uuid, select=[*_REQUEST, *more])
        except NotFound:
            # The API speaks of requests, of which clients of TES know nothing.
            raise NotFound(f"task {uuid!r} not found") from None
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
        beside = await self._beside(api, caller, query)
        cursor = query.after
        for _ in range(_MOST_PAGES):
            before = [["created_at", "<=", cursor.created_at]] if cursor else []
            page = await self._rows(api, query, [*conditions, *before], min(PAGE, query.size + 2))
            rows = [one for one in page if is_after(cursor, one)]
            if not rows:
                return merge_pages(found, beside, None), None
            found += await self._in_state(api, caller, rows, query.state)
            cursor = PageCursor(rows[-1]["created_at"], rows[-1]["uuid"])
            all_found = merge_pages(found, beside, cursor)
            if len(all_found) > query.size:
                return all_found, None
        return all_found, cursor

    async def _rows(
        self, api: ApiClient, query: TaskQuery, filters: list[Json], limit: int
    ) -> list[Record]:
        more = ["mounts"] if query.view is TaskView.FULL else []
        return await api.list(
            "container_requests",
            filters=filters,
            order=["created_at desc", "uuid desc"],
            select=[*_REQUEST, *more],
            limit=limit,
        )

    async def _beside(self, api: ApiClient, caller: TaskCaller, query: TaskQuery) -> list[Record]:
        """The tasks of a list whose state follows from their transfers alone."""
        phase = transfer_phase(query.state) if query.state is not None else None
        if phase is None:
            return []
        uuids = [one.request_uuid for one in await self._transfers.in_phase(phase, most=PAGE)]
        if not uuids:
            return []
        plain = listing.filters(replace(query, state=None), legacy=caller.legacy)
        page = await self._rows(api, query, [*plain, ["uuid", "in", uuids]], PAGE)
        rows = [one for one in page if is_after(query.after, one)]
        return await self._in_state(api, caller, rows, query.state)

    async def _in_state(
        self, api: ApiClient, caller: TaskCaller, rows: list[Record], state: TaskState | None
    ) -> list[Record]:
        if state is None:
            return rows
        known = await self._known(api, rows)
        return [row for row in rows if await self._state(api, caller, row, known) == state]

    async def _known(self, api: ApiClient, rows: list[Record], *, attempts: bool = False) -> _Known:
        """Facts that give the states of tasks; with `attempts` also the facts for their logs."""
        transferred = [one["uuid"] for one in rows if has_transfers(one)]
        return _Known(
            containers=await self._containers(api, rows, attempts=attempts),
            transfers=await self._transfers.read(transferred) if transferred else {},
        )

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
        self, api: ApiClient, caller: TaskCaller, row: Record, known: _Known
    ) -> TaskState:
        container = known.containers.get(row["container_uuid"] or "")
        transfer = known.transfers.get(row["uuid"])
        phase = transfer.phase if transfer else None
        keeps = phase is not None and mapping.keeps_on_failure(document_of(row))
        state = state_of(row, container, legacy=caller.legacy, transfer=phase, keeps=keeps)
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
        try:
            outputs = find_outputs(task, tree)
        except TooLarge as error:
            outputs = TaskOutputs(excess=error.message)
        return outputs, str(found["portable_data_hash"])

    async def _show(
        self,
        api: ApiClient,
        caller: TaskCaller,
        row: Record,
        known: _Known,
        view: TaskView,
    ) -> JsonObject:
        state = await self._state(api, caller, row, known)
        attempts: list[TaskAttempt] = []
        transfer = known.transfers.get(row["uuid"])
        notes = [transfer.note] if transfer and transfer.note else []
        if view is not TaskView.MINIMAL:
            uuids = [*row["attempted_container_uuids"], row["container_uuid"]]
            ran = [known.containers[one] for one in uuids if one in known.containers]
            for number, container in enumerate(ran, 1):
                last = number == len(ran)
                # Clients of TES 1.0 read the first log or the last one: there is one for them.
                if last or (has_begun(container) and not caller.legacy):
                    made = self._attempt(
                        api, row, container, number, last=last, view=view, notes=notes
                    )
                    attempts.append(await made)
            notes += warnings_of(row)
        return show_task(row, state, view=view, attempts=attempts, notes=notes)

    async def _attempt(
        self,
        api: ApiClient,
        row: Record,
        container: Record,
        number: int,
        *,
        last: bool,
        view: TaskView,
        notes: Sequence[str],
    ) -> TaskAttempt:
        outputs, output = await self._outputs(api, row) if last else (TaskOutputs(), "")
        checksums: dict[str, str] = {}
        if last and any(one.url for one in outputs.files):
            delivered = await self._transfers.deliveries(row["uuid"])
            checksums = {one.url: one.checksum for one in delivered}
        is_reused = container["created_at"] < row["created_at"]
        found = TaskAttempt(
            container=container,
            number=number,
            outputs=outputs,
            output=output,
            is_reused=is_reused,
            not_reused=why_not_reused(row),
            checksums=checksums,
        )
        if view is not TaskView.FULL:
            return found
        notes = [*notes, *warnings_of(row)] if last else []
        if is_reused:
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
        return replace(found, streams=tuple(streams), notes=tuple(notes))

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
        return text_end(answer.body, size, f"lading request logs {row['uuid']}")


def _place_of(error: Invalid, task: JsonObject) -> str:
    """The JSON pointer of the part of a task that the API refused; "" where it names none."""
    if error.message.startswith("owner_uuid:"):
        return "/tags/lading.project"
    named = _IMAGE_FAULT.search(error.message)
    # Of several executors, the first one with this image.
    images = [one["image"] for one in objects(task, "executors")]
    return f"/executors/{images.index(named[1])}/image" if named and named[1] in images else ""
