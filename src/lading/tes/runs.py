"""The operations of WES: runs of workflows, as container requests of the API.

Each call acts with the token of its caller, so the API decides what is found and what may be done.
Attachments become a collection. The rules are in `core.wes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec

from lading.client.api import PAGE, ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.files.downloads import read_file
from lading.client.retry import NO_RETRY
from lading.client.transport import Transport
from lading.core.containers.request_phases import RequestState
from lading.core.data import filetree
from lading.core.data.filetree import File
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.tes.paging import PageCursor, is_after, make_page_token
from lading.core.values import JsonObject, is_too_deep
from lading.core.wes import listing, mapping, views
from lading.core.wes.document import RunDocument, input_attachments
from lading.core.wes.listing import PageQuery

_STATE: Final = (
    "uuid",
    "state",
    "priority",
    "container_uuid",
    "attempted_container_uuids",
    "created_at",
    "properties",
)
_LOG: Final = (*_STATE, "name", "command", "mounts", "output_uuid")
_TASK: Final = (*_STATE, "name", "command", "requesting_container_uuid")
_CONTAINER: Final = (
    "uuid",
    "state",
    "exit_code",
    "runtime_status",
    "started_at",
    "finished_at",
)
# Bytes of an output object that are read.
_MOST_OUTPUT: Final = 4 << 20
_ATTACHMENTS: Final = "workflow attachments"


class WorkflowRuns:
    """Runs of all callers, who are named by their tokens. `transport` leads to the API; `image` is
    the image of the runner, `url` the address that clients use; `secret` signs tokens of pages.
    """

    def __init__(self, transport: Transport, *, image: str, url: str, secret: bytes) -> None:
        self._transport = transport
        self._image = image
        self._url = url.rstrip("/")
        self.secret = secret

    async def check(self, token: str) -> None:
        """Raise the error of the API for a token that it does not accept."""
        await self._api(token).request("GET", "users/current")

    async def create(self, token: str, run: RunDocument, attachments: Mapping[str, bytes]) -> str:
        """Start a run with the contents of its attachments by path; its id. Raises the errors of
        the API, Invalid without the image of the runner.
        """
        name = mapping.name_of(run)
        inputs = input_attachments(run.params, attachments)
        given = {path: attachments[path] for path in inputs}
        attributes = mapping.make_request(
            run,
            workflow=await self._store(token, run, f"Workflow {name}", attachments),
            inputs=await self._store(token, run, f"Inputs of {name}", given),
            image=self._image,
        )
        # A repeated create could make a second run.
        api = ApiClient(self._transport, token, retry=NO_RETRY)
        try:
            request = await api.create("container_requests", attributes, select=["uuid"])
        except Invalid as error:
            if self._image in error.message:
                raise Invalid(
                    f"the image {self._image}, which runs workflows, is not on this server; "
                    "an administrator adds it with 'lading image runner'"
                ) from None
            raise
        return str(request["uuid"])

    async def status(self, token: str, uuid: str) -> JsonObject:
        """The RunStatus of a run. Raises NotFound, also for requests that are no runs."""
        api = self._api(token)
        request = await self._find(api, uuid, _STATE)
        return views.show_status(request, await self._container(api, request))

    async def get(self, token: str, uuid: str) -> JsonObject:
        """The RunLog of a run. Raises NotFound."""
        api = self._api(token)
        request = await self._find(api, uuid, _LOG)
        container = await self._container(api, request)
        notes: list[str] = []
        outputs: JsonObject = {}
        if request["state"] == RequestState.FINAL:
            outputs = await self._outputs(token, request, notes)
        elif container is None or not container["started_at"]:
            status = await api.action(
                "container_requests", request["uuid"], "container_status", method="GET"
            )
            if status["scheduling_status"]:
                notes.append(status["scheduling_status"])
        return views.show_run(
            request, container, url=self._url, outputs=outputs, notes=tuple(notes)
        )

    async def find(self, token: str, page: PageQuery) -> JsonObject:
        """A page of runs, newest first."""
        api = self._api(token)
        conditions = [listing.IS_RUN]
        if page.after is not None:
            conditions.append(["created_at", "<=", page.after.created_at])
        rows = await api.list(
            "container_requests",
            filters=conditions,
            order=["created_at desc", "uuid desc"],
            select=_STATE,
            # The last record of the page before, and one more than the page has.
            limit=min(PAGE, page.size + 2),
        )
        rows = [row for row in rows if is_after(page.after, row)]
        shown = rows[: page.size]
        containers = await self._containers(api, shown)
        return {
            "runs": [
                views.show_summary(row, containers.get(row["container_uuid"] or ""))
                for row in shown
            ],
            "next_page_token": self._next(rows, page, about=listing.RUNS),
        }

    async def tasks(self, token: str, uuid: str, page: PageQuery) -> JsonObject:
        """A page of the tasks of a run, in the order in which they were made. Raises NotFound."""
        api = self._api(token)
        request = await self._find(api, uuid, _STATE)
        after = page.after
        conditions = [["requesting_container_uuid", "in", _runners(request)]]
        if after is not None:
            conditions.append(["created_at", ">=", after.created_at])
        rows = await api.list(
            "container_requests",
            filters=conditions,
            order=["created_at asc", "uuid asc"],
            select=_TASK,
            limit=min(PAGE, page.size + 2),
        )
        if after is not None:
            last = (after.created_at, after.uuid)
            rows = [row for row in rows if (row["created_at"], row["uuid"]) > last]
        shown = rows[: page.size]
        containers = await self._containers(api, shown)
        return {
            "task_logs": [
                views.show_task(row, containers.get(row["container_uuid"] or ""), url=self._url)
                for row in shown
            ],
            "next_page_token": self._next(rows, page, about=listing.tasks_of(uuid)),
        }

    async def task(self, token: str, uuid: str, task: str) -> JsonObject:
        """A task of a run. Raises NotFound."""
        api = self._api(token)
        run = await self._find(api, uuid, _STATE)
        request = await self._get(api, task, _TASK, "task")
        if request["requesting_container_uuid"] not in _runners(run):
            raise NotFound(f"task {task[:60]!r} not found in this run")
        return views.show_task(request, await self._container(api, request), url=self._url)

    async def cancel(self, token: str, uuid: str) -> None:
        """Cancel a run and its tasks; nothing changes for one that has ended. Raises NotFound,
        Forbidden.
        """
        api = self._api(token)
        request = await self._find(api, uuid, _STATE)
        if request["state"] != RequestState.FINAL:
            await api.action("container_requests", request["uuid"], "cancel")

    async def counts(self, token: str) -> JsonObject:
        """The numbers of the caller's runs by state; states of no run are left out."""
        api = self._api(token)

        async def count(conditions: Iterable[Any]) -> int:
            answer = await api.request(
                "GET",
                "container_requests",
                params={"filters": [listing.IS_RUN, *conditions], "limit": 0, "count": "exact"},
            )
            return int(answer["items_available"]) if isinstance(answer, dict) else 0

        numbers = await asyncio.gather(
            *(count(conditions) for conditions in listing.COUNTED.values())
        )
        return {
            str(state): number
            for state, number in zip(listing.COUNTED, numbers, strict=True)
            if number
        }

    def _api(self, token: str) -> ApiClient:
        return ApiClient(self._transport, token)

    async def _find(self, api: ApiClient, uuid: str, select: Iterable[str]) -> Record:
        request = await self._get(api, uuid, select, "run")
        if mapping.PROPERTY not in request["properties"]:
            raise NotFound(f"run {uuid[:60]!r} not found")
        return request

    async def _get(self, api: ApiClient, uuid: str, select: Iterable[str], subject: str) -> Record:
        # Other texts could lead to another address of the API.
        if is_uuid(uuid, Infix.REQUEST):
            with suppress(NotFound):
                return await api.get("container_requests", uuid, select=select)
        raise NotFound(f"{subject} {uuid[:60]!r} not found")

    async def _container(self, api: ApiClient, request: Record) -> Record | None:
        return (await self._containers(api, [request])).get(request["container_uuid"] or "")

    async def _containers(self, api: ApiClient, rows: Iterable[Record]) -> dict[str, Record]:
        uuids = [row["container_uuid"] for row in rows if row["container_uuid"]]
        if not uuids:
            return {}
        containers = await api.list(
            "containers", filters=[["uuid", "in", uuids]], select=_CONTAINER, limit=PAGE
        )
        return {container["uuid"]: container for container in containers}

    def _next(self, rows: list[Record], page: PageQuery, *, about: Any) -> str:
        """The token of the next page; "" after the last one."""
        if len(rows) <= page.size:
            return ""
        last = rows[page.size - 1]
        cursor = PageCursor(last["created_at"], last["uuid"])
        return make_page_token(cursor, about, secret=self.secret)

    async def _store(
        self, token: str, run: RunDocument, name: str, attachments: Mapping[str, bytes]
    ) -> str:
        """The portable data hash of a new collection with attachments; "" without any."""
        if not attachments:
            return ""
        # The way to the store is a socket of this machine.
        blocks = BlockClient(self._transport, token, trusting=True)
        async with CollectionWriter(blocks) as writer:
            for path in sorted(attachments):
                await writer.add_bytes(path, attachments[path])
            text = await writer.finish()
        attributes: JsonObject = {
            "name": name,
            "manifest_text": text,
            "properties": {"type": _ATTACHMENTS},
        }
        if owner := run.tags.get("lading.project"):
            attributes["owner_uuid"] = owner
        made = await self._api(token).create(
            "collections", attributes, select=["portable_data_hash"], ensure_unique_name=True
        )
        return str(made["portable_data_hash"])

    async def _outputs(self, token: str, request: Record, notes: list[str]) -> JsonObject:
        """The output object of a run that has ended, {} if there is none; the reason goes to
        `notes`.
        """
        if not request["output_uuid"]:
            return {}
        try:
            collection = await self._api(token).get(
                "collections",
                request["output_uuid"],
                select=["portable_data_hash", "manifest_text"],
            )
        except NotFound:
            notes.append("the output collection was deleted")
            return {}
        file = filetree.find(filetree.from_manifest(collection["manifest_text"]), mapping.OUTPUT)
        if not isinstance(file, File) or not file.size:
            return {}
        if file.size > _MOST_OUTPUT:
            notes.append(f"{mapping.OUTPUT} has {file.size} bytes, too many to be shown here")
            return {}
        parts: list[bytes] = []
        blocks = BlockClient(self._transport, token, trusting=True)
        async with aclosing(read_file(blocks, file)) as pieces:
            parts += [bytes(piece) async for piece in pieces]
        try:
            # The output was written by a container.
            value = msgspec.json.decode(b"".join(parts))
        except (msgspec.DecodeError, RecursionError) as error:
            notes.append(f"{mapping.OUTPUT}: not JSON: {error}")
            return {}
        if not isinstance(value, dict) or is_too_deep(value):
            notes.append(f"{mapping.OUTPUT}: is no object, or is nested too deep")
            return {}
        return mapping.resolve(value, str(collection["portable_data_hash"]))


def _runners(request: Record) -> list[str]:
    """The containers of the runner: of all attempts."""
    uuids = [*request["attempted_container_uuids"], request["container_uuid"]]
    return list(dict.fromkeys(uuid for uuid in uuids if uuid))
