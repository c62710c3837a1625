"""Runs that are read: the list, and one run with its steps.

A run is a project with the property `lading_run`, which owns the requests that are its steps; or it
is the request of a workflow runner, whose container asks for the steps. A reader of the project can
read the steps that it owns. The steps that a runner asks for are checked one by one.

Source: docs/spec/api, section Runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.resources.runs.expecting import MOST_EXPECTED_STEPS, expected_end
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.quantities import format_time, parse_time
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    All,
    Column,
    Compare,
    Either,
    Expression,
    Like,
    PropertyKey,
    Query,
    SortKey,
)
from lading.core.records.record_types import GROUPS
from lading.core.records.schema import Record, RecordType, Type
from lading.core.request_status import RequestStatus, request_status
from lading.core.runs import attempts, summaries
from lading.core.runs.attempts import RunAttempt
from lading.core.runs.parameters import (
    parse_limit,
    parse_number,
    parse_position,
    parse_state,
    parse_text,
)
from lading.core.runs.states import RunCounts
from lading.core.runs.summaries import RunTotals, StepTotals
from lading.store import records
from lading.store.database import Transaction
from lading.store.runs import steps
from lading.store.runs.steps import RunScope

MOST_RUNS: Final = 100
"""Runs of one page."""
MOST_STEPS: Final = 10_000
"""Steps of one answer."""
_MOST_EXPECTED: Final = 20
"""Runs of one page with an expected end; each takes some statements."""
_EXAMINED: Final = 2000
"""Runs that one call examines for those in a state: a later call goes on after them."""
_BAD: Final = (RequestStatus.FAILED, RequestStatus.CANCELLED)
_OF_PROJECT: Final = (
    "uuid", "name", "description", "owner_uuid", "created_at", "modified_at",
    "modified_by_user_uuid", "properties",
)  # fmt: skip
_OF_RUNNER: Final = (
    "uuid", "name", "description", "owner_uuid", "created_at", "properties", "state", "command",
    "committed_by_uuid", "container_uuid", "attempted_container_uuids", "mounts",
    "requesting_container_uuid", "cumulative_cost", "output_uuid",
)  # fmt: skip


async def list_runs(call: ApiCall) -> ApiResponse:
    """A page of runs, the last begun first: {"items", "next"}; `next` is null after the last."""
    _check_scopes(call)
    limit = parse_limit(call.params, 50, MOST_RUNS)
    state = parse_state(call.params.get("state"))
    after = parse_position(call.params.get("after"))
    items: list[Record] = []
    examined = 0
    async with call.services.database.reading() as tx:
        while True:
            page, after = await _page(tx, call, limit, after)
            examined += limit
            items += [item for item in page if state is None or item["state"] == state]
            if after is None or state is None or len(items) >= limit or examined >= _EXAMINED:
                break
    if len(items) > limit:
        # A page of a state may end within the last one that was read.
        items = items[:limit]
        after = (items[-1]["position_at"], items[-1]["uuid"])
    for item in items:
        del item["position_at"]
    return ApiResponse(body={"items": items, "next": " ".join(after) if after else None})


async def get_run(call: ApiCall) -> ApiResponse:
    """One run, as the list shows it."""
    _check_scopes(call)
    async with call.services.database.reading() as tx:
        subject = await _find(tx, call)
        body = subject.show((await _add_up(tx, [subject]))[subject.uuid])
        await _add_expected_ends(tx, call, [subject], [body])
    del body["position_at"]
    return ApiResponse(body=body)


async def run_now(tx: Transaction, project: Record) -> tuple[RunAttempt, RunTotals, Record]:
    """The latest attempt of a run that is a project, its totals, and the run as lists show it."""
    subject = _project_run(tx, project, None)
    totals = (await _add_up(tx, [subject]))[subject.uuid]
    return subject.attempt, totals, subject.show(totals)


async def list_steps(call: ApiCall) -> ApiResponse:
    """Steps of a run: {"items", "next"}; each is a request with attributes of its container."""
    _check_scopes(call)
    limit = parse_limit(call.params, 1000, MOST_STEPS)
    after = parse_position(call.params.get("after"))
    async with call.services.database.reading() as tx:
        subject = await _find(tx, call)
        rows = await steps.find(tx, tx.dialect, subject.scope, limit=limit + 1, after=after)
        items = rows[:limit]
        held = [row["container_uuid"] for row in items if row["container_uuid"]]
        read = await steps.contents_read(tx, list(dict.fromkeys(held)))
        repeated: Mapping[str, RequestStatus] = {}
        if any(row["state"] in _BAD for row in items):
            repeated = (await steps.repeated(tx, tx.dialect, [subject.scope]))[subject.scope.key]
    for item in items:
        item["inputs"] = read.get(item["container_uuid"] or "", [])
        item["is_repeated"] = item["uuid"] in repeated
    last = items[-1] if len(rows) > limit else None
    position = f"{last['created_at']} {last['uuid']}" if last else None
    return ApiResponse(body={"items": items, "next": position})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProjectRun:
    """A run that is a project, with the attempt that is told of."""

    project: Record
    all_attempts: tuple[RunAttempt, ...]
    attempt: RunAttempt
    scope: RunScope

    @property
    def uuid(self) -> str:
        return str(self.project["uuid"])

    def show(self, totals: RunTotals) -> Record:
        """The run as lists show it."""
        shown = summaries.show_project(self.project, self.all_attempts, self.attempt, totals)
        return {**shown, "position_at": self.project["modified_at"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunnerRun:
    """A run that is the request of a workflow runner, with its container, if it has one."""

    request: Record
    container: Record | None
    scope: RunScope

    @property
    def uuid(self) -> str:
        return str(self.request["uuid"])

    def show(self, totals: RunTotals) -> Record:
        """The run as lists show it."""
        container = self.container or {}
        status = request_status(
            str(self.request["state"]),
            container.get("state"),
            exit_code=container.get("exit_code"),
            failure=(container.get("runtime_status") or {}).get("failure"),
        )
        below = float(container.get("subrequests_cost") or 0)
        runner = StepTotals(
            status=status,
            is_reused=False,
            number=1,
            started_at=container.get("started_at"),
            finished_at=container.get("finished_at"),
            cost=max(0.0, self.request["cumulative_cost"] - below),
        )
        shown = summaries.show_runner(self.request, status, runner, totals)
        return {**shown, "position_at": self.request["created_at"]}


async def _page(
    tx: Transaction, call: ApiCall, limit: int, after: tuple[str, str] | None
) -> tuple[list[Record], tuple[str, str] | None]:
    """The next `limit` runs, and the position after them, None after the last one."""
    projects = await _search(tx, call, GROUPS, limit, after)
    runners = await _search(tx, call, REQUESTS, limit, after)
    rows = sorted(
        [
            *((row["modified_at"], row["uuid"], row) for row in projects),
            *((row["created_at"], row["uuid"], row) for row in runners),
        ],
        key=lambda entry: entry[:2],
        reverse=True,
    )
    page = rows[:limit]
    is_last = max(len(projects), len(runners)) < limit and len(rows) <= limit
    position = None if is_last or not page else (page[-1][0], page[-1][1])
    subjects = await _subjects(tx, call, [row for _, _, row in page])
    totals = await _add_up(tx, subjects)
    shown = [subject.show(totals[subject.uuid]) for subject in subjects]
    await _add_expected_ends(tx, call, subjects, shown)
    return shown, position


async def _add_up(
    tx: Transaction, subjects: Sequence[_ProjectRun | _RunnerRun]
) -> dict[str, RunTotals]:
    """The totals of runs by their uuids. Only runs with a failure are looked at for repeated
    steps.
    """
    counted = await steps.totals(tx, tx.dialect, [subject.scope for subject in subjects])
    totals = {uuid: summaries.add_up(rows) for uuid, rows in counted.items()}
    failing = [subject.scope for subject in subjects if _may_repeat(totals[subject.uuid].counts)]
    repeated = await steps.repeated(tx, tx.dialect, failing)
    return totals | {
        uuid: summaries.add_up(counted[uuid], statuses.values())
        for uuid, statuses in repeated.items()
        if statuses
    }


def _may_repeat(counts: RunCounts) -> bool:
    bad = counts.failed + counts.cancelled
    return bad > 0 and 1 < counts.total <= MOST_STEPS


async def _add_expected_ends(
    tx: Transaction,
    call: ApiCall,
    subjects: Sequence[_ProjectRun | _RunnerRun],
    items: Sequence[Record],
) -> None:
    """Add the expected ends of some runs to them: null for a workflow, whose runner decides which
    steps come.
    """
    examined = 0
    for subject, item in zip(subjects, items, strict=True):
        item["expected_end"] = None
        is_live = item["counts"]["running"] and item["counts"]["total"] <= MOST_EXPECTED_STEPS
        if not isinstance(subject, _ProjectRun) or not is_live or examined >= _MOST_EXPECTED:
            continue
        examined += 1
        item["expected_end"] = await expected_end(
            tx,
            subject.scope,
            _earlier_scope(tx, subject),
            call.caller,
            now=call.services.clock.now(),
            is_over=subject.attempt.ended_at is not None,
        )


def _earlier_scope(tx: Transaction, subject: _ProjectRun) -> RunScope | None:
    """The steps of the attempt by which those of a later one are judged."""
    earlier = attempts.exemplary(subject.all_attempts, subject.attempt.number)
    if earlier is None:
        return None
    return _project_run(tx, subject.project, earlier.number).scope


async def _search(
    tx: Transaction, call: ApiCall, kind: RecordType, limit: int, after: tuple[str, str] | None
) -> list[Record]:
    """Projects that are runs, or requests of workflow runners, that the caller can read."""
    is_project = kind is GROUPS
    column = "modified_at" if is_project else "created_at"
    begun = Column(column, Type.TIME)
    marked = (
        PropertyKey("properties", attempts.RUN)
        if is_project
        else PropertyKey("scheduling_parameters", "supervisor")
    )
    where: list[Expression] = [Compare(marked, "=", value=True)]
    if not is_project:
        # The runner of a part of a workflow is a step of that.
        where.append(Compare(_text_column("requesting_container_uuid"), "=", None))
    if after is not None:
        # The first condition is the range of the index.
        beyond = All((Compare(begun, "=", after[0]), Compare(_text_column("uuid"), "<", after[1])))
        where += [Compare(begun, "<=", after[0]), Either((Compare(begun, "<", after[0]), beyond))]
    where += _asked(call, is_project=is_project, begun=begun)
    query = Query(
        where=(*generic.readable(call, kind), *where),
        order=(SortKey(column, descending=True), SortKey("uuid", descending=True)),
        select=_OF_PROJECT if is_project else _OF_RUNNER,
        limit=limit,
    )
    query = await generic.narrowed(tx, kind, query, call.caller)
    return await records.search(tx, tx.dialect, kind, query)


def _asked(call: ApiCall, *, is_project: bool, begun: Column) -> list[Expression]:
    """The conditions of the caller's parameters."""
    params = call.params
    where: list[Expression] = []
    if name := parse_text("name", params.get("name")):
        pattern = "%" + "".join(f"\\{mark}" if mark in "%_\\" else mark for mark in name) + "%"
        where.append(Like((_text_column("name"),), pattern, fold=True))
    if owner := parse_text("project", params.get("project")):
        where.append(Compare(_text_column("owner_uuid"), "=", owner))
    if user := parse_text("user", params.get("user")):
        who = "modified_by_user_uuid" if is_project else "committed_by_uuid"
        where.append(Compare(_text_column(who), "=", user))
    if since := parse_text("since", params.get("since")):
        try:
            moment = format_time(parse_time(since))
        except ValueError:
            raise Invalid(f"since: {since[:40]!r} is no time, as 2026-01-02T03:04:05Z") from None
        where.append(Compare(begun, ">=", moment))
    return where


async def _subjects(
    tx: Transaction, call: ApiCall, rows: Sequence[Record]
) -> list[_ProjectRun | _RunnerRun]:
    """The runs of some records, in their order; the runners that are steps of runs are left out."""
    runners = [row for row in rows if "command" in row]
    owners = {row["owner_uuid"] for row in runners if ids.is_group(row["owner_uuid"])}
    within = {
        row["uuid"]
        for row in await records.among(tx, GROUPS, "uuid", sorted(owners))
        if attempts.is_run(row["properties"])
    }
    uuids = [row["container_uuid"] for row in runners if row["container_uuid"]]
    containers = {row["uuid"]: row for row in await records.among(tx, CONTAINERS, "uuid", uuids)}
    subjects: list[_ProjectRun | _RunnerRun] = []
    for row in rows:
        if "command" not in row:
            subjects.append(_project_run(tx, row, None))
        elif row["owner_uuid"] not in within:
            subjects.append(_runner_run(tx, call, row, containers.get(row["container_uuid"])))
    return subjects


def _project_run(tx: Transaction, project: Record, number: int | None) -> _ProjectRun:
    all_attempts = attempts.attempts_of(project["properties"])
    attempt = attempts.find_attempt(all_attempts, number)
    if attempt is None and number is not None:
        raise NotFound(f"run {project['name']!r} has no attempt {number}")
    # Somebody took the list of attempts from the properties: all that it owns is one attempt.
    shown = attempt or RunAttempt(number=1, user=project["modified_by_user_uuid"] or "")
    is_only = len(all_attempts) < 2 and shown.number == 1
    scope = steps.owned_scope(
        tx.dialect,
        str(project["uuid"]),
        str(project["uuid"]),
        since=shown.since,
        number=None if is_only else shown.number,
        is_latest=not all_attempts or shown.number == all_attempts[-1].number,
    )
    return _ProjectRun(project=project, all_attempts=all_attempts, attempt=shown, scope=scope)


def _runner_run(
    tx: Transaction, call: ApiCall, request: Record, container: Record | None
) -> _RunnerRun:
    tried = [*(request["attempted_container_uuids"] or ()), request["container_uuid"]]
    uuids = list(dict.fromkeys(uuid for uuid in tried if uuid))
    readable = generic.readable(call, REQUESTS)
    scope = steps.asked_scope(tx.dialect, str(request["uuid"]), uuids, readable)
    return _RunnerRun(request=request, container=container, scope=scope)


async def _find(tx: Transaction, call: ApiCall) -> _ProjectRun | _RunnerRun:
    """The run with the uuid of the call. Raises NotFound, also for a record that is no run."""
    number = parse_number(call.params.get("attempt"))
    services = call.services
    kind = REQUESTS if ids.infix_of(call.uuid) == ids.Infix.REQUEST else GROUPS
    record = await authorization.find_readable(
        tx, services.clock, services.config, kind, call.uuid, call.caller
    )
    if kind is GROUPS:
        if not attempts.is_run(record["properties"]):
            raise NotFound(f"{call.uuid}: is a group that is no run; 'lading runs' lists the runs")
        return _project_run(tx, record, number)
    if not (record["scheduling_parameters"] or {}).get("supervisor"):
        raise NotFound(f"{call.uuid}: is a request that is no run; 'lading runs' lists the runs")
    uuid = record["container_uuid"]
    container = await records.get(tx, CONTAINERS, uuid) if uuid else None
    return _runner_run(tx, call, record, container)


def _check_scopes(call: ApiCall) -> None:
    """Refuse tokens that may not list requests or containers: steps are both. Raises Forbidden."""
    for kind in (REQUESTS, CONTAINERS):
        if not access.covers_list(call.caller, kind):
            access.check_scope(call.caller, "GET", f"/arvados/v1/{kind.plural}")


def _text_column(name: str) -> Column:
    return Column(name, Type.STRING)


HANDLERS: Final = {
    "groups.runs": list_runs,
    "groups.run": get_run,
    "groups.run_steps": list_steps,
    "container_requests.run": get_run,
    "container_requests.run_steps": list_steps,
}
