"""States and logs of tasks, gathered from requests, containers and transfers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lading.client.api import PAGE, ApiClient, Record
from lading.core.containers.request_phases import RequestState
from lading.core.data import filetree
from lading.core.errors import NotFound, RequestError, TooLarge
from lading.core.tes import mapping
from lading.core.tes.listing import TaskView
from lading.core.tes.outputs import TaskOutputs, find_outputs
from lading.core.tes.states import TaskState, state_of
from lading.core.tes.transfers import TaskTransfer
from lading.core.tes.views import (
    MAX_TEXT,
    TaskAttempt,
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
# Tasks that have ended well, whose outputs are known to be there.
_MOST_CHECKED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """Containers and transfers of the tasks of a call, by uuid."""

    containers: Mapping[str, Record]
    transfers: Mapping[str, TaskTransfer]


@dataclass(frozen=True, slots=True)
class TaskCaller:
    """Token of a caller; `legacy`: the call is below the address of TES 1.0 clients."""

    token: str
    legacy: bool


class TaskReader:
    """Shows tasks to their callers."""

    def __init__(self, transfers: StoredTransfers) -> None:
        self._transfers = transfers
        self._ended_well: OrderedDict[str, None] = OrderedDict()

    async def gather_facts(
        self, api: ApiClient, rows: list[Record], *, attempts: bool = False
    ) -> TaskFacts:
        """Facts that give the states of tasks; with `attempts` also the facts for their logs."""
        transferred = [row["uuid"] for row in rows if has_transfers(row)]
        return TaskFacts(
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
            wanted |= dict.fromkeys(uuid for uuid in (*earlier, row["container_uuid"]) if uuid)
        uuids = list(wanted)
        containers: dict[str, Record] = {}
        for start in range(0, len(uuids), PAGE):
            page = await api.list(
                "containers",
                filters=[["uuid", "in", uuids[start : start + PAGE]]],
                select=_CONTAINER if attempts else _STATE,
                limit=PAGE,
            )
            containers |= {container["uuid"]: container for container in page}
        return containers

    async def state(
        self, api: ApiClient, caller: TaskCaller, row: Record, facts: TaskFacts
    ) -> TaskState:
        """The state of a task. One that has ended well is looked at for missing outputs once."""
        container = facts.containers.get(row["container_uuid"] or "")
        transfer = facts.transfers.get(row["uuid"])
        phase = transfer.phase if transfer else None
        keeps = phase is not None and mapping.keeps_on_failure(document_of(row))
        state = state_of(row, container, legacy=caller.legacy, transfer=phase, keeps=keeps)
        if state is not TaskState.COMPLETE or row["uuid"] in self._ended_well:
            return state
        outputs, _ = await self._outputs(api, row)
        if outputs.missing:
            return state_of(row, container, legacy=caller.legacy, lacks_outputs=True)
        self._ended_well[row["uuid"]] = None
        if len(self._ended_well) > _MOST_CHECKED:
            self._ended_well.popitem(last=False)
        return state

    async def _outputs(self, api: ApiClient, row: Record) -> tuple[TaskOutputs, str]:
        """The outputs of a task, and the portable data hash of their collection; none while there
        is no collection, or when it was deleted.
        """
        task = document_of(row)
        if not row["output_uuid"] or not task.get("outputs"):
            return TaskOutputs(), ""
        try:
            collection = await api.get(
                "collections",
                row["output_uuid"],
                select=["portable_data_hash", "unsigned_manifest_text"],
            )
        except NotFound:
            return TaskOutputs(), ""
        tree = filetree.from_manifest(collection["unsigned_manifest_text"])
        try:
            outputs = find_outputs(task, tree)
        except TooLarge as error:
            outputs = TaskOutputs(excess=error.message)
        return outputs, str(collection["portable_data_hash"])

    async def show(
        self,
        api: ApiClient,
        caller: TaskCaller,
        row: Record,
        facts: TaskFacts,
        view: TaskView,
    ) -> JsonObject:
        """A task as a view shows it."""
        state = await self.state(api, caller, row, facts)
        attempts: list[TaskAttempt] = []
        transfer = facts.transfers.get(row["uuid"])
        notes = [transfer.note] if transfer and transfer.note else []
        if view is not TaskView.MINIMAL:
            uuids = [*row["attempted_container_uuids"], row["container_uuid"]]
            ran = [facts.containers[uuid] for uuid in uuids if uuid in facts.containers]
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
        if last and any(file.url for file in outputs.files):
            delivered = await self._transfers.deliveries(row["uuid"])
            checksums = {delivery.url: delivery.checksum for delivery in delivered}
        is_reused = container["created_at"] < row["created_at"]
        attempt = TaskAttempt(
            container=container,
            number=number,
            outputs=outputs,
            output=output,
            is_reused=is_reused,
            not_reused=why_not_reused(row),
            checksums=checksums,
        )
        if view is not TaskView.FULL:
            return attempt
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
                await self._stream(api, row, container, "stdout.txt", step.get("stdout")),
                await self._stream(api, row, container, "stderr.txt", step.get("stderr")),
            )
            for step in ended_steps(container)
        ]
        return replace(attempt, streams=tuple(streams), notes=tuple(notes))

    async def _stream(
        self, api: ApiClient, row: Record, container: Record, name: str, span: list[int] | None
    ) -> str:
        """The end of a stream of a container, or of the part of it between two bytes; "" where
        there is none.
        """
        path = f"container_requests/{row['uuid']}/log/{container['uuid']}/{name}"
        # Twice as much as is shown: the times of the lines are taken away.
        span_text, size = f"-{2 * MAX_TEXT}", -1
        if span is not None:
            start, end = span
            if start == end:
                return ""
            span_text, size = f"{max(start, end - 2 * MAX_TEXT)}-{end - 1}", end - start
        try:
            answer = await api.raw("GET", path, headers={"Range": f"bytes={span_text}"})
        except RequestError as error:
            # An empty file has no range of bytes.
            if error.status in (404, 416):
                return ""
            raise
        whole = answer.headers.get("content-range", "").rpartition("/")[2]
        if size < 0:
            size = int(whole) if whole.isdigit() else len(answer.body)
        return text_end(answer.body, size, f"lading request logs {row['uuid']}")
