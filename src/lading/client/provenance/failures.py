"""Finds the step that a failure comes from, and the last lines that its command wrote.

A request that waits for others ends when one of them fails; a workflow's runner fails when one of
its steps does. Then the record of the request says little. The step is found by going from a
request that was cancelled to those that it needs, and from one that failed to those that its
container made, as long as one of them has failed or was cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.request_tree import needed
from lading.client.request_states import shown_command, shown_state, status_of
from lading.core.errors import LadingError
from lading.core.log_tail import MOST_BYTES, MOST_LINES, last_texts
from lading.core.request_status import RequestStatus

_DEEPEST: Final = 50
"""Steps from the request to the one that failed."""
_MOST: Final = 500
"""Requests that are looked at in one step."""
_STREAMS: Final = (("stderr.txt", "standard error"), ("stdout.txt", "standard output"))
_BAD: Final = (RequestStatus.FAILED, RequestStatus.CANCELLED)
_SELECT: Final = (
    "uuid", "name", "command", "state", "priority", "created_at", "container_uuid", "depends_on",
    "mounts",
)  # fmt: skip
_OF_CONTAINER: Final = (
    "uuid", "state", "exit_code", "runtime_status", "started_at", "finished_at",
)  # fmt: skip


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The step that a failure comes from; `lines` are the last lines of its command."""

    step: RequestOutcome
    is_other: bool
    """Whether the step is another request than the one that was asked about."""
    stream: str = ""
    """The stream with the lines: standard error, or standard output where that has none."""
    lines: list[str] = msgspec.field(default_factory=list)

    @property
    def uuid(self) -> str:
        """The uuid of the step."""
        return str(self.step.request["uuid"])

    @property
    def name(self) -> str:
        """The name of the step, or its command."""
        return str(self.step.request["name"] or shown_command(self.step.request))

    @property
    def sentence(self) -> str:
        """The status of the step and its fault."""
        state, fault = shown_state(self.step), self.step.fault
        is_said = not fault or fault == f"exit code {self.step.exit_code}"
        return state if is_said else f"{state}: {fault}"

    def document(self) -> dict[str, Any]:
        """The report for programs."""
        container = self.step.container or {}
        return {
            "uuid": self.uuid,
            "name": self.step.request["name"],
            "state": container.get("state") or self.step.request["state"],
            "exit_code": container.get("exit_code"),
            "runtime_status": container.get("runtime_status") or {},
            "last_lines": self.lines,
        }


async def find_failure(
    api: ApiClient, outcome: RequestOutcome, *, most: int = MOST_LINES
) -> FailureReport | None:
    """The step that the failure or cancellation of a request comes from, as far as the caller may
    read it, with its last `most` lines; None for a request that has neither failed nor was
    cancelled. Raises the errors of the API.
    """
    if status_of(outcome) not in _BAD:
        return None
    step = await find_failed_step(api, outcome)
    stream, lines = await read_last_lines(api, step, most=most)
    is_other = step.request["uuid"] != outcome.request["uuid"]
    return FailureReport(step=step, is_other=is_other, stream=stream, lines=lines)


async def find_failures(
    api: ApiClient, outcomes: Iterable[RequestOutcome], *, most: int, lines: int
) -> dict[str, FailureReport]:
    """The reports about the first `most` requests that failed, by their uuids; a step that several
    failures come from is reported once.
    """
    bad = [outcome for outcome in outcomes if status_of(outcome) in _BAD]
    bad.sort(key=lambda outcome: status_of(outcome) is not RequestStatus.FAILED)
    reports: dict[str, FailureReport] = {}
    for outcome in bad[:most]:
        report = await find_failure(api, outcome, most=lines)
        if report and report.uuid not in {earlier.uuid for earlier in reports.values()}:
            reports[str(outcome.request["uuid"])] = report
    return reports


async def find_failed_step(api: ApiClient, outcome: RequestOutcome) -> RequestOutcome:
    """The step that the failure or cancellation of a request comes from; the request itself if no
    step caused it. Raises the errors of the API.
    """
    step, visited = outcome, {outcome.request["uuid"]}
    for _ in range(_DEEPEST):
        around = await _around(api, step)
        bad = [
            outcome
            for outcome in around
            if status_of(outcome) in _BAD and outcome.request["uuid"] not in visited
        ]
        if not bad:
            break
        step = min(bad, key=_rank)
        visited.add(step.request["uuid"])
    return step


async def read_last_lines(
    api: ApiClient, outcome: RequestOutcome, *, most: int = MOST_LINES
) -> tuple[str, list[str]]:
    """The stream with the last lines of a failed command, and these lines; ("", []) without any, as
    of a command that never began, or whose log cannot be read.
    """
    container = outcome.container
    is_failed = status_of(outcome) is RequestStatus.FAILED
    if container is None or not is_failed or not container.get("started_at", True):
        return "", []
    folder = f"container_requests/{outcome.request['uuid']}/log/{container['uuid']}"
    for name, stream in _STREAMS:
        headers = {"Range": f"bytes=-{MOST_BYTES}"}
        try:
            answer = await api.raw("GET", f"/arvados/v1/{folder}/{quote(name)}", headers=headers)
        # The lines are shown beside a failure that is known without them.
        except LadingError:
            continue
        data = answer.body[-MOST_BYTES:]
        if lines := last_texts(data, is_cut=len(data) == MOST_BYTES, most=most):
            return stream, lines
    return "", []


async def _around(api: ApiClient, outcome: RequestOutcome) -> list[RequestOutcome]:
    """The requests that a cancelled request needed, or that the container of a failed one made."""
    if status_of(outcome) is RequestStatus.FAILED:
        made_by = (outcome.container or {}).get("uuid")
        filters: list[Any] = [["requesting_container_uuid", "=", made_by], ["state", "=", "Final"]]
    else:
        request = outcome.request
        if not {"depends_on", "mounts"} <= request.keys():
            request = await api.get("container_requests", request["uuid"], select=_SELECT)
        wanted = list(dict.fromkeys(needed(request)))[:_MOST]
        if not wanted:
            return []
        filters = [["uuid", "in", wanted], ["state", "=", "Final"]]
    rows = await api.list(
        "container_requests",
        filters=filters,
        select=_SELECT,
        order=["created_at asc"],
        limit=_MOST,
    )
    return await _with_containers(api, rows)


async def _with_containers(api: ApiClient, rows: Sequence[Record]) -> list[RequestOutcome]:
    uuids = sorted({row["container_uuid"] for row in rows if row["container_uuid"]})
    containers = {}
    if uuids:
        filters = [["uuid", "in", uuids]]
        listed = await api.list(
            "containers", filters=filters, select=_OF_CONTAINER, limit=len(uuids)
        )
        containers = {container["uuid"]: container for container in listed}
    return [RequestOutcome(row, containers.get(row["container_uuid"] or "")) for row in rows]


def _rank(outcome: RequestOutcome) -> tuple[bool, str, str]:
    """The order of steps: one that failed before one that was cancelled, the first to end first."""
    ended = str((outcome.container or {}).get("finished_at") or "~")
    is_failed = status_of(outcome) is RequestStatus.FAILED
    return not is_failed, ended, str(outcome.request["created_at"])
