"""One request: its state, why it is where it is, what it asked for and used, what it made; and what
can be done with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.responses import Response

from lading.client import explanations, sharing
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome, warnings
from lading.client.provenance.failures import find_failed_step
from lading.client.request_states import (
    is_reused,
    repeated,
    seconds_of,
    shown_command,
    shown_container,
    shown_state,
    state_of,
    status_of,
    waits_unseen,
    whole_command,
)
from lading.core.drawing.gantt import Timeline, TimelineTask, lay_out
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, infix_of, is_pdh, is_uuid
from lading.core.quantities import parse_time, size
from lading.core.request_status import RequestStatus
from lading.core.secrets import restored
from lading.process.concurrency import together
from lading.web.requests import files, log, rows
from lading.web.visit import Visit

_ENDED: Final = ("Complete", "Cancelled")
_WAITING: Final = ("Queued", "Locked")
# The API's highest priority of a request.
_MOST_PRIORITY: Final = 1000
_FILES: Final = 50
"""Entries of the output on the overview; its own page has more."""
_RAISE: Final = 100
"""By how much the button raises the priority."""
_CHART: Final = 420
"""Width of the bars of the attempts in units of the drawing."""

_SOURCES: Final = ("portable_data_hash", "uuid", "container_request", "git_url", "device_type")


async def show(visit: Visit) -> Response:
    """The page of a request."""
    values = await _facts(visit)
    request, container = values["request"], values["container"]
    results = await _results(visit, request, container)
    return visit.page(
        "request.html",
        **values,
        **results,
        **await _failure(visit, request, container),
        inputs=list(_inputs(request)),
        owner=(await sharing.names_of(visit.api, [request["owner_uuid"]])).get(
            request["owner_uuid"], request["owner_uuid"]
        ),
        asked=list(_asked(request, container)),
        said=visit.query("said"),
    )


async def refresh_state(visit: Visit) -> Response:
    """The part of the page that tells the state."""
    values = await _facts(visit)
    failure = await _failure(visit, values["request"], values["container"])
    return visit.page("request_state.html", **values, **failure)


async def refresh_results(visit: Visit) -> Response:
    """The part of the page that tells what was used and made."""
    values = await _facts(visit)
    results = await _results(visit, values["request"], values["container"])
    return visit.page("request_results.html", **values, **results)


async def cancel(visit: Visit) -> Response:
    """Cancel the request."""
    uuid = request_uuid(visit)
    await visit.api.action("container_requests", uuid, "cancel")
    return visit.redirect(f"/ui/requests/{uuid}?said=cancelled")


async def prioritize(visit: Visit) -> Response:
    """Give the request another priority."""
    uuid, priority = request_uuid(visit), visit.field("priority")
    if not priority.isascii() or not priority.isdigit() or int(priority) > _MOST_PRIORITY:
        raise Invalid(f"priority: must be a whole number from 0 to {_MOST_PRIORITY}")
    await visit.api.update("container_requests", uuid, {"priority": int(priority)})
    return visit.redirect(f"/ui/requests/{uuid}?said=changed")


async def run_again(visit: Visit) -> Response:
    """Submit the same once more, and run it even if it has succeeded; where it needs secrets, the
    form that asks for them.
    """
    uuid = request_uuid(visit)
    request = await visit.api.get("container_requests", uuid, select=("uuid", "secrets_needed"))
    if request["secrets_needed"]:
        return visit.redirect(f"/ui/requests/submit?from={uuid}")
    created = await repeat(visit, uuid)
    return visit.redirect(f"/ui/requests/{created['uuid']}?said=again")


async def repeat(visit: Visit, uuid: str) -> Record:
    """A new request for what a request has asked for, which runs even if the same has succeeded.
    Raises Invalid for one that needs secrets.
    """
    request = await visit.api.get("container_requests", uuid)
    restored(request["secrets_needed"], {})
    changes = {"state": "Committed", "priority": request["priority"] or 1, "use_existing": False}
    return await visit.api.create("container_requests", {**repeated(request, {}), **changes})


def request_uuid(visit: Visit) -> str:
    """The uuid in the address. Raises NotFound."""
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid) or infix_of(uuid) != Infix.REQUEST:
        raise NotFound("There is no such request")
    return uuid


def _is_waiting(state: str, container: Record | None) -> bool:
    """Whether the container of a request with this state has not begun."""
    return state not in _ENDED and container is not None and container["state"] in _WAITING


def _decision_facts(decision: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the page that explain a decision to reuse or to run."""
    return {
        "candidates": list(explanations.candidate_rows(decision)),
        "nearest": explanations.nearest_text(decision),
        "nearest_uuid": (decision.get("nearest") or {}).get("container_uuid", ""),
        "differences": list(explanations.difference_rows(decision)),
        "rule": explanations.rule_text(decision),
    }


async def _facts(visit: Visit) -> dict[str, Any]:
    request, why = await _request_and_why(visit)
    attempts = await _attempts(visit, request)
    container = attempts[-1] if request["container_uuid"] and attempts else None
    outcome = RequestOutcome(request, container)
    state = state_of(request, container)
    fault = rows.fault_of(outcome) if state in _ENDED else ""
    # Errors that are on the page already, in its order.
    known_errors = {fault}
    because = _because(why, fault, known_errors)
    moments = list(_moments(request, attempts, known_errors))
    decisions = explanations.dispatch_rows(why.get("dispatch") or ())
    return {
        "request": request,
        "container": container,
        "title": request["name"] or shown_command(request),
        "state": shown_state(outcome, _wait(request, container, why)),
        "is_over": state in _ENDED,
        "is_waiting": _is_waiting(state, container),
        "fault": explanations.with_count(fault, explanations.attempts_with(fault, attempts)),
        "warnings": warnings(container) if container and state in _ENDED else [],
        "seconds": seconds_of(outcome, visit.services.clock()),
        "reused": bool(container) and is_reused(request, container or {}),
        "command": whole_command(request),
        "because": because[1:],
        **_decision_facts(why["decision"] or {}),
        "dispatch": [
            (*row, explanations.shorten(sentence, known_errors)) for *row, sentence in decisions
        ],
        "moments": moments,
        "chart": _chart(attempts, visit.services.clock().timestamp()),
        "chart_width": _CHART,
        "raised": min(_MOST_PRIORITY, (request["priority"] or 0) + _RAISE),
        "source": await _source(visit, request, container),
        # The output becomes known when the request is Final, after the end of its container.
        "topics": "" if request["state"] == "Final" else request_uuid(visit),
    }


async def _request_and_why(visit: Visit) -> tuple[Record, dict[str, Any]]:
    """The request of the page and its explanation, asked for at the same time."""
    uuid, api = request_uuid(visit), visit.api
    answers: dict[str, Any] = {}

    async def get_request() -> None:
        answers["request"] = await api.get("container_requests", uuid)

    async def get_why() -> None:
        answers["why"] = await api.action("container_requests", uuid, "why", method="GET")

    await together(get_request(), get_why())
    return answers["request"], answers["why"]


def _because(why: Mapping[str, Any], fault: str, known_errors: set[str]) -> list[tuple[str, str]]:
    """The fields of the explanation that say more than the fault; their errors come into
    `known_errors`.
    """
    fields = explanations.why_fields(why, known_errors=known_errors)
    shortened = [(name, explanations.shorten(sentence, [fault])) for name, sentence in fields]
    return [(name, sentence) for name, sentence in shortened if sentence]


def _wait(request: Record, container: Record | None, why: Mapping[str, Any]) -> Record | None:
    """The reason for which a request waits, where its container's state does not show it."""
    waits = why.get("waits") or ()
    return waits[0] if waits and waits_unseen(request, container) else None


async def _results(visit: Visit, request: Record, container: Record | None) -> dict[str, Any]:
    results: dict[str, Any] = {"files": None, "files_fault": "", "usage": []}
    try:
        results["files"] = await files.look(visit, request, container, path="", most=_FILES)
    except LadingError as error:
        # The output may be in the trash, or not readable: the rest of the page is.
        results["files_fault"] = error.message
    if container and container["state"] in _ENDED:
        results["usage"] = await log.usage(visit, request["uuid"], container["uuid"])
    return results


async def _failure(visit: Visit, request: Record, container: Record | None) -> dict[str, Any]:
    """The step that a request has failed for, None if it is the request itself, and the last lines
    of its command.
    """
    none: dict[str, Any] = {"failed_step": None, "last_words": []}
    outcome = RequestOutcome(request, container)
    if status_of(outcome) not in (RequestStatus.FAILED, RequestStatus.CANCELLED):
        return none
    step = await find_failed_step(visit.api, outcome)
    is_other = step.request["uuid"] != request["uuid"]
    failed_step = None
    if is_other:
        title = step.request["name"] or shown_command(step.request)
        failed_step = {
            "uuid": step.request["uuid"],
            "title": title,
            "state": shown_state(step),
            "fault": rows.fault_of(step),
        }
    ran = step.container is not None and step.container.get("started_at")
    if not ran or status_of(step) is not RequestStatus.FAILED:
        return {**none, "failed_step": failed_step}
    words = await log.last_words(visit, step.request["uuid"], (step.container or {})["uuid"])
    return {"failed_step": failed_step, "last_words": words}


async def _source(visit: Visit, request: Record, container: Record | None) -> Record | None:
    """The request that first asked for the container whose result is reused, if its reader sees
    one.
    """
    if container is None or not is_reused(request, container):
        return None
    requests = await visit.api.list(
        "container_requests",
        filters=[["container_uuid", "=", container["uuid"]], ["uuid", "!=", request["uuid"]]],
        order=["created_at asc"],
        select=("uuid", "name", "command", "created_at"),
        limit=1,
    )
    earlier = [
        candidate for candidate in requests if candidate["created_at"] < request["created_at"]
    ]
    return (
        {**earlier[0], "title": earlier[0]["name"] or shown_command(earlier[0])}
        if earlier
        else None
    )


def _chart(attempts: list[Record], now: float) -> Timeline | None:
    """Bars of waiting and running of each attempt; None without one."""
    if not attempts:
        return None
    tasks = [
        TimelineTask(
            key=attempt["uuid"],
            name=f"attempt {number}" if len(attempts) > 1 else "container",
            state=shown_container(attempt),
            created=_moment(attempt["created_at"]),
            started=_moment(attempt["started_at"]) if attempt["started_at"] else None,
            ended=_moment(attempt["finished_at"]) if attempt["finished_at"] else None,
        )
        for number, attempt in enumerate(attempts, 1)
    ]
    return lay_out(tasks, now=now, width=_CHART, most=len(tasks))


def _moment(timestamp: str) -> float:
    return parse_time(timestamp).timestamp()


async def _attempts(visit: Visit, request: Record) -> list[Record]:
    """The containers of a request, the present one last."""
    uuids = [*(request["attempted_container_uuids"] or ()), request["container_uuid"]]
    attempt_uuids = [uuid for uuid in dict.fromkeys(uuids) if uuid]
    if not attempt_uuids:
        return []
    records = await visit.api.list(
        "containers", filters=[["uuid", "in", attempt_uuids]], limit=len(attempt_uuids)
    )
    by_uuid = {record["uuid"]: record for record in records}
    return [by_uuid[uuid] for uuid in attempt_uuids if uuid in by_uuid]


def _moments(
    request: Record, attempts: list[Record], known_errors: set[str]
) -> Iterator[tuple[str, str, str]]:
    """Time, event and detail, in order of the attempts. `known_errors`: the errors that the page
    shows already.
    """
    yield request["created_at"], "made", ""
    ends = explanations.end_texts(attempts, known_errors=known_errors)
    for number, (attempt, end) in enumerate(zip(attempts, ends, strict=True), 1):
        name = f"attempt {number}" if len(attempts) > 1 else ""
        if is_reused(request, attempt):
            yield attempt["created_at"], "reused container made", attempt["uuid"]
        else:
            yield attempt["created_at"], "container made", name or attempt["uuid"]
        if attempt["started_at"]:
            yield attempt["started_at"], "command started", name
        if attempt["finished_at"]:
            yield attempt["finished_at"], "ended", end


def _inputs(request: Record) -> Iterator[tuple[str, str, str, str]]:
    """Target, kind, source and page of the source, "" without one, of each mount."""
    for target, mount in sorted(request["mounts"].items()):
        source = next(
            (mount[name] for name in _SOURCES if mount.get(name)),
            "",
        )
        path = f"/{mount['path']}" if mount.get("path") else ""
        yield target, str(mount.get("kind") or ""), f"{source}{path}", _source_address(str(source))


def _source_address(source: str) -> str:
    if is_pdh(source) or is_uuid(source, Infix.COLLECTION):
        return f"/ui/collections/{source}"
    return f"/ui/requests/{source}" if is_uuid(source, Infix.REQUEST) else ""


def _asked(request: Record, container: Record | None) -> Iterator[tuple[str, str, str]]:
    """Name, what was asked and what was given, of each need."""
    asked: Mapping[str, Any] = request["runtime_constraints"]
    granted: Mapping[str, Any] = (container or {}).get("runtime_constraints") or {}
    for name in asked:
        if _is_asked(asked[name]):
            yield name, _amount(name, asked[name]), _amount(name, granted.get(name))


def _is_asked(value: Any) -> bool:
    """Whether a need is more than its empty default."""
    if isinstance(value, dict):
        return any(_is_asked(member) for member in value.values())
    return bool(value)


def _amount(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_amount(name, bound) for bound in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {member}" for key, member in value.items() if _is_asked(member))
    if name in ("ram", "keep_cache_ram", "keep_cache_disk") and isinstance(value, int):
        return size(value)
    return "" if value is None else str(value)
