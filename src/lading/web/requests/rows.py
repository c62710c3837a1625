"""Rows of lists of requests: conditions, keyset pages, and what a row shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import (
    CANCELLED,
    CONDITIONS,
    find_waits,
    is_reused,
    seconds_of,
    shown_command,
    shown_state,
    status_of,
    waits_unseen,
)
from lading.core.errors import Invalid
from lading.core.request_status import RequestStatus, parse_status
from lading.web.keyset import PATIENCE, SearchPage, has_part, page_after, search_after
from lading.web.visit import Visit

STATES: Final = (
    RequestStatus.RUNNING,
    RequestStatus.WAITING,
    RequestStatus.FAILED,
    RequestStatus.DONE,
    RequestStatus.CANCELLED,
    RequestStatus.DRAFT,
)
"""States by which a list is filtered."""
_OVER: Final = (RequestStatus.DONE, RequestStatus.FAILED, RequestStatus.CANCELLED)
_COMMITTED, _FINAL = ["state", "=", "Committed"], ["state", "=", "Final"]
# Conditions on a container leave out requests without one.
_NO_CONTAINER = ["container_uuid", "=", None]
_FAILURE = "container.runtime_status.failure"
# State -> alternatives, each with its conditions: filters of the API know no "or".
_FILTERS: Final[dict[str, list[list[Any]]]] = {
    "": [[]],
    **{state: [conditions] for state, conditions in CONDITIONS.items()},
    RequestStatus.WAITING: [
        [_COMMITTED, ["container.state", "in", ["Queued", "Locked"]]],
        [_COMMITTED, _NO_CONTAINER],
    ],
    # A command that cannot be started has a Cancelled container.
    RequestStatus.FAILED: [
        [_FINAL, ["container.state", "=", "Complete"], ["container.exit_code", "!=", 0]],
        [_FINAL, ["container.state", "=", CANCELLED], [_FAILURE, "exists", True]],
    ],
    # The container of a cancelled request may go on for another one.
    RequestStatus.CANCELLED: [
        [_FINAL, ["container.state", "=", CANCELLED], [_FAILURE, "exists", False]],
        [_FINAL, ["container.state", "in", ["Queued", "Locked", "Running"]]],
        [_FINAL, _NO_CONTAINER],
    ],
}
_SELECT: Final = (
    "uuid", "name", "state", "priority", "command", "created_at", "container_uuid", "owner_uuid",
    "cumulative_cost",
)  # fmt: skip
_OF_CONTAINER: Final = (
    "uuid", "state", "exit_code", "created_at", "started_at", "finished_at", "runtime_status",
    "progress", "priority",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A request as a list shows it."""

    uuid: str
    title: str
    command: str
    state: str
    fault: str
    created_at: str
    seconds: float | None
    reused: bool
    is_over: bool
    progress: float | None
    cost: float

    @property
    def key(self) -> str:
        """The place of the row in the order of lists, for the page after it."""
        return f"{self.created_at}~{self.uuid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPage:
    """Requests, the newest first; `reached`: the moment down to which was looked for them, "" if
    need not be looked further.
    """

    rows: list[RequestRow]
    reached: str = ""


async def find(
    visit: Visit,
    *,
    state: str = "",
    name: str = "",
    owner: str = "",
    after: str = "",
    most: int,
    patience: float = PATIENCE,
) -> RequestPage:
    """The first requests, the newest first, in a state, with a text in their name and of an owner.
    The page begins after the row with the key `after`. The search ends after `patience` seconds.
    Raises Invalid, and the errors of the API.
    """
    # Addresses of earlier versions have the states of the API.
    state = parse_status(state) or state
    if state not in _FILTERS:
        raise Invalid(f"state: {state[:40]!r} is none; these are: {', '.join(STATES)}")
    common = _conditions(name, owner)
    records: list[Record] = []
    reached = ""
    share = patience / len(_FILTERS[state])
    for conditions in _FILTERS[state]:
        asked: dict[str, Any] = {
            "filters": [*conditions, *common], "select": _SELECT, "after": after, "most": most
        }  # fmt: skip
        if name or _FINAL in conditions:
            result = await search_after(
                visit.api, "container_requests", **asked, patience=share,
                common_filters=_conditions("", owner),
            )  # fmt: skip
        else:
            result = SearchPage(await page_after(visit.api, "container_requests", **asked))
        records += result.records
        reached = max(reached, result.reached)
    # Each alternative has its first ones, so that the first of all are among them, as far as each
    # has looked.
    records = [record for record in records if record["created_at"] >= reached]
    records.sort(key=lambda record: (record["created_at"], record["uuid"]), reverse=True)
    picked = await make_rows(visit, records[:most])
    return RequestPage(rows=picked, reached=reached if len(picked) < most else "")


async def find_among(visit: Visit, uuids: Sequence[str]) -> list[RequestRow]:
    """These requests, in this order; those that cannot be read are left out."""
    records = await visit.api.list(
        "container_requests",
        filters=[["uuid", "in", list(uuids)]],
        select=_SELECT,
        limit=len(uuids),
    )
    row_by_uuid = {row.uuid: row for row in await make_rows(visit, records)}
    return [row_by_uuid[uuid] for uuid in uuids if uuid in row_by_uuid]


def topics(rows: Iterable[RequestRow], *, new: bool = False) -> str:
    """Subjects of a stream of events: these requests that are not over, and new ones."""
    names = [row.uuid for row in rows if not row.is_over]
    return ",".join([*(["new"] if new else []), *names])


def _conditions(name: str, owner: str) -> list[list[Any]]:
    named = [has_part("name", name)] if name else []
    return [*named, *([["owner_uuid", "=", owner]] if owner else [])]


async def make_rows(visit: Visit, requests: Sequence[Record]) -> list[RequestRow]:
    """The rows of these requests, with their containers, which one call fetches."""
    container_uuids = sorted(
        {request["container_uuid"] for request in requests if request["container_uuid"]}
    )
    containers: dict[str, Record] = {}
    if container_uuids:
        records = await visit.api.list(
            "containers",
            filters=[["uuid", "in", container_uuids]],
            select=_OF_CONTAINER,
            limit=len(container_uuids),
        )
        containers = {container["uuid"]: container for container in records}
    pairs = [(request, containers.get(request["container_uuid"] or "")) for request in requests]
    unseen = [request["uuid"] for request, container in pairs if waits_unseen(request, container)]
    waits = await find_waits(visit.api, unseen) if unseen else {}
    return [
        _row(visit, request, container, waits.get(request["uuid"])) for request, container in pairs
    ]


def fault_of(outcome: RequestOutcome) -> str:
    """Reason why a request that is over has failed; "" where its state is enough, such as `failed
    5`.
    """
    container = outcome.container
    if container is None or container["state"] == "Complete":
        return ""
    return outcome.fault


def _row(
    visit: Visit, request: Record, container: Record | None, wait: Record | None
) -> RequestRow:
    outcome = RequestOutcome(request, container)
    status = status_of(outcome)
    command = shown_command(request)
    is_over = status in _OVER
    runtime_status = (container or {}).get("runtime_status") or {}
    warning = str(runtime_status.get("warning") or (wait or {}).get("sentence") or "")
    return RequestRow(
        uuid=request["uuid"],
        title=request["name"] or command,
        command=command,
        state=shown_state(outcome, wait),
        fault=(fault_of(outcome) or runtime_status.get("warning") or "") if is_over else warning,
        created_at=request["created_at"],
        seconds=seconds_of(outcome, visit.services.clock()),
        reused=bool(container) and is_reused(request, container or {}),
        is_over=is_over,
        progress=(container or {}).get("progress") if status is RequestStatus.RUNNING else None,
        cost=float(request.get("cumulative_cost") or 0),
    )
