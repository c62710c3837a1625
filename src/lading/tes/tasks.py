"""The operations of TES on container requests, with the token of the caller.

A task is a container request with the property `tes`; its state follows from the request, its
container (`core.tes.states`), and, with inputs or outputs by URL, from its transfer (`transfers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from lading.client.api import PAGE, ApiClient, Json, Record
from lading.client.transport import Transport
from lading.core.containers.request_phases import RequestState
from lading.core.errors import NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import parse_time
from lading.core.tes import listing, mapping
from lading.core.tes.listing import TaskQuery, TaskView
from lading.core.tes.mapping import TaskSite
from lading.core.tes.paging import PageCursor, is_after, make_page_token, merge_pages
from lading.core.tes.states import TaskState, is_awaited, is_shown, transfer_phase
from lading.core.tes.transfers import TransferPhase
from lading.core.tes.views import (
    DESCRIBED,
    describe_request,
    has_transfers,
)
from lading.core.values import JsonObject
from lading.store.transfers import StoredTransfers
from lading.tes.task_creation import TaskCreator
from lading.tes.task_views import TaskCaller, TaskReader
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
# Pages of requests that one list call examines when a filter holds for few of them.
_MOST_PAGES: Final = 10
# Tasks of a page whose logs are read at once.
_TOGETHER: Final = 8
# Seconds between two looks whether a task has ended, the first and the longest, and calls that wait
# for an end at a time: further ones are answered at once.
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
_MOST_WAITING: Final = 16


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
        self.secret = secret
        self._clock = clock
        self._creator = TaskCreator(
            transport, transfers, worker, site=site, clock=clock, sleep=sleep
        )
        self._reader = TaskReader(transfers)

    async def check(self, caller: TaskCaller) -> None:
        """Raise the error of the API for a token that it does not accept."""
        await self._api(caller).request("GET", "users/current")

    async def create(self, caller: TaskCaller, sent: Json, *, key: str = "") -> str:
        """Create a task; its id (`TaskCreator.create`). Raises InvalidTask, and the errors of the
        API.
        """
        return await self._creator.create(caller, sent, key=key)

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
        facts = await self._reader.gather_facts(
            api, [request], attempts=view is not TaskView.MINIMAL
        )
        return await self._reader.show(api, caller, request, facts, view)

    async def find(self, caller: TaskCaller, query: TaskQuery) -> JsonObject:
        """A page of tasks, newest first. Raises the errors of the API."""
        if query.state is not None and not is_shown(query.state, legacy=caller.legacy):
            return {"tasks": []}
        api = self._api(caller)
        requests, cursor = await self._scan(api, caller, query)
        # One more than the page tells whether there is another page.
        more, requests = len(requests) > query.size, requests[: query.size]
        tasks: list[Json] = []
        facts = await self._reader.gather_facts(
            api, requests, attempts=query.view is not TaskView.MINIMAL
        )
        for start in range(0, len(requests), _TOGETHER):
            chunk = requests[start : start + _TOGETHER]
            shown = (
                self._reader.show(api, caller, request, facts, query.view) for request in chunk
            )
            tasks += await asyncio.gather(*shown)
        answer: JsonObject = {"tasks": tasks}
        if more:
            cursor = PageCursor(requests[-1]["created_at"], requests[-1]["uuid"])
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

    def _api(self, caller: TaskCaller) -> ApiClient:
        return ApiClient(self._transport, caller.token)

    async def _find(self, api: ApiClient, uuid: str, *more: str) -> Record:
        # Other texts could lead to another address of the API.
        if not is_uuid(uuid, Infix.REQUEST):
            raise NotFound(f"task {uuid[:60]!r} not found")
        try:
            request = await api.get("container_requests", uuid, select=[*_REQUEST, *more])
        except NotFound:
            # The API speaks of requests, of which clients of TES know nothing.
            raise NotFound(f"task {uuid!r} not found") from None
        if mapping.PROPERTY not in request["properties"] and not request.get(
            "requesting_container_uuid"
        ):
            raise NotFound(f"task {uuid[:60]!r} not found")
        return request

    async def _described(self, api: ApiClient, row: Record) -> JsonObject:
        """Properties with a document for a request that was not made by a create."""
        request = await api.get("container_requests", row["uuid"], select=DESCRIBED)
        task = describe_request(request)
        return {**row["properties"], mapping.PROPERTY: {"task": task, "warnings": []}}

    async def _scan(
        self, api: ApiClient, caller: TaskCaller, query: TaskQuery
    ) -> tuple[list[Record], PageCursor | None]:
        """The first requests of a page, with one more request where there is one. Also the cursor
        of the next call when the search stopped before its end.
        """
        conditions = listing.filters(query, legacy=caller.legacy)
        matching: list[Record] = []
        beside = await self._beside(api, caller, query)
        cursor = query.after
        for _ in range(_MOST_PAGES):
            before = [["created_at", "<=", cursor.created_at]] if cursor else []
            page = await self._rows(api, query, [*conditions, *before], min(PAGE, query.size + 2))
            rows = [request for request in page if is_after(cursor, request)]
            if not rows:
                return merge_pages(matching, beside, None), None
            matching += await self._in_state(api, caller, rows, query.state)
            cursor = PageCursor(rows[-1]["created_at"], rows[-1]["uuid"])
            all_found = merge_pages(matching, beside, cursor)
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
        uuids = [
            transfer.request_uuid for transfer in await self._transfers.in_phase(phase, most=PAGE)
        ]
        if not uuids:
            return []
        plain = listing.filters(replace(query, state=None), legacy=caller.legacy)
        page = await self._rows(api, query, [*plain, ["uuid", "in", uuids]], PAGE)
        rows = [request for request in page if is_after(query.after, request)]
        return await self._in_state(api, caller, rows, query.state)

    async def _in_state(
        self, api: ApiClient, caller: TaskCaller, rows: list[Record], state: TaskState | None
    ) -> list[Record]:
        if state is None:
            return rows
        facts = await self._reader.gather_facts(api, rows)
        return [row for row in rows if await self._reader.state(api, caller, row, facts) == state]
