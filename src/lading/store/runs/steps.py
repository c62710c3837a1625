"""Steps of runs, by the index of owners, or by that of the containers that asked for them.

One statement counts the steps of all runs of a page; another one reads the steps of a run.
"""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lading.core.records.expressions import Compare, Either, Expression, KeyExists, PropertyKey
from lading.core.request_status import RequestStatus
from lading.core.runs import attempts
from lading.core.runs.resubmission import SubmittedStep, repeated_steps
from lading.core.runs.summaries import StepTotals
from lading.store.database import Dialect, Row, Transaction, Value
from lading.store.permissions import CHUNK
from lading.store.query import alias_condition

MOST_SCOPES: Final = 100
"""Runs that one statement counts."""
_LONGEST: Final = 4000
"""Characters of a command or a status; a longer one is left out: a list does not show it."""
_ATTEMPT: Final = PropertyKey("properties", attempts.ATTEMPT)
_JOINED: Final = (
    "FROM container_requests r LEFT JOIN containers c ON c.uuid = r.container_uuid WHERE "
)
_REUSED: Final = "CASE WHEN c.created_at < r.created_at THEN 1 ELSE 0 END"
_OF_REQUEST: Final = (
    "uuid", "name", "created_at", "modified_at", "priority", "container_uuid", "output_uuid",
    "log_uuid", "committed_by_uuid", "requesting_container_uuid", "cumulative_cost",
)  # fmt: skip
_OF_CONTAINER: Final = (
    "exit_code", "started_at", "finished_at", "progress", "output", "log", "cost",
    "subrequests_cost", "container_image",
)  # fmt: skip
_NESTED: Final = ("command", "depends_on", "properties", "runtime_status", "usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """The SQL condition on the steps of a run, with its values; `key` names it in an answer."""

    key: str
    condition: str
    values: tuple[Value, ...]


def owned_scope(
    dialect: Dialect, key: str, owner_uuid: str, *, since: str, number: int | None, is_latest: bool
) -> RunScope:
    """The steps of an attempt of the run that owns them: the steps with its number. The latest
    attempt also has the steps without a number. `number` None: the steps of all attempts.
    """
    condition, values = "r.owner_uuid = ? AND r.created_at >= ?", (owner_uuid, since)
    if number is None:
        return RunScope(key=key, condition=condition, values=values)
    numbered: Expression = Compare(_ATTEMPT, "=", number)
    if is_latest:
        numbered = Either((numbered, KeyExists(_ATTEMPT, exists=False)))
    further, more = alias_condition(dialect, "r", (numbered,))
    return RunScope(key=key, condition=f"{condition}{further}", values=(*values, *more))


def asked_scope(
    dialect: Dialect, key: str, containers: Collection[str], readable: Sequence[Expression]
) -> RunScope:
    """The requests of some containers that meet the conditions of `readable`."""
    marks = ", ".join("?" for _ in containers) or "NULL"
    further, values = alias_condition(dialect, "r", readable)
    return RunScope(
        key=key,
        condition=f"r.requesting_container_uuid IN ({marks}){further}",
        values=(*containers, *values),
    )


async def totals(
    tx: Transaction, dialect: Dialect, scopes: Sequence[RunScope]
) -> dict[str, list[StepTotals]]:
    """The steps of runs, counted by status, by the key of each scope."""
    sums: dict[str, list[StepTotals]] = {scope.key: [] for scope in scopes}
    counted = _counted(dialect)
    # In this order the same kinds of runs have the same statement, which is prepared once.
    ordered = sorted(scopes, key=lambda scope: scope.condition)
    for start in range(0, len(ordered), MOST_SCOPES):
        batch = ordered[start : start + MOST_SCOPES]
        rows = await tx.fetch(
            " UNION ALL ".join(
                f"SELECT CAST(? AS TEXT) AS run_key, {counted} {_JOINED}{scope.condition}"
                " GROUP BY 2, 3"
                for scope in batch
            ),
            [value for scope in batch for value in (scope.key, *scope.values)],
        )
        for row in rows:
            sums[str(row[0])].append(_totals(row))
    return sums


async def find(
    tx: Transaction, dialect: Dialect, scope: RunScope, *, limit: int, after: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """Steps of a run with the attributes of their containers, in the order of their submission:
    those after (created_at, uuid), `limit` at most.
    """
    beyond = " AND r.created_at >= ? AND (r.created_at > ? OR r.uuid > ?)" if after else ""
    more = (after[0], after[0], after[1]) if after else ()
    expressions = _expressions(dialect)
    rows = await tx.fetch(
        f"SELECT {', '.join(expressions.values())} {_JOINED}{scope.condition}{beyond}"
        " ORDER BY r.created_at, r.uuid LIMIT ?",
        (*scope.values, *more, limit),
    )
    return [_step(dict(zip(expressions, row, strict=True))) for row in rows]


async def repeated(
    tx: Transaction, dialect: Dialect, scopes: Sequence[RunScope]
) -> dict[str, dict[str, RequestStatus]]:
    """The failed and cancelled steps that a later step of the run repeats, with their statuses, by
    uuid, by the key of each scope. Only steps whose name others have are read.
    """
    statuses: dict[str, dict[str, RequestStatus]] = {}
    for scope in scopes:
        rows = await tx.fetch(
            "SELECT uuid, status, name, command, environment, mounts FROM (SELECT r.uuid,"
            f" {_status(dialect)} AS status, r.name, r.command, r.environment, r.mounts,"
            f" r.created_at, COUNT(*) OVER (PARTITION BY r.name) AS same {_JOINED}{scope.condition}"
            ") AS t WHERE same > 1 ORDER BY created_at, uuid",
            scope.values,
        )
        statuses[scope.key] = repeated_steps(
            SubmittedStep(
                uuid=str(uuid),
                status=RequestStatus(str(status)),
                name=str(name or ""),
                command=_decoded(command),
                environment=_decoded(environment),
                mounts=_decoded(mounts),
            )
            for uuid, status, name, command, environment, mounts in rows
        )
    return statuses


def _status(dialect: Dialect) -> str:
    """The status of a step, as `core.request_status.request_status`."""
    failed = f"EXISTS (SELECT 1 FROM {dialect.each('c.runtime_status')} e WHERE e.key = 'failure')"
    return (
        "CASE WHEN c.state = 'Complete' THEN CASE WHEN c.exit_code = 0 THEN 'done'"
        " ELSE 'failed' END"
        f" WHEN c.state = 'Cancelled' THEN CASE WHEN {failed} THEN 'failed' ELSE 'cancelled' END"
        " WHEN r.state = 'Final' THEN 'cancelled'"
        " WHEN r.state = 'Uncommitted' THEN 'draft'"
        " WHEN c.state = 'Running' THEN 'running' ELSE 'waiting' END"
    )


def _counted(dialect: Dialect) -> str:
    # What a request cost is that of its containers, earlier attempts too; what these asked for are
    # requests of their own.
    own = "r.cumulative_cost - COALESCE(c.subrequests_cost, 0)"
    is_reused = "c.created_at < r.created_at"
    saved = f"{is_reused} AND c.state = 'Complete' AND c.exit_code = 0"
    return (
        f"{_status(dialect)}, {_REUSED}, COUNT(*), MIN(c.started_at), MAX(c.finished_at),"
        f" SUM(CASE WHEN {is_reused} THEN 0.0 ELSE {own} END),"
        f" SUM(CASE WHEN {saved} THEN c.cost + c.subrequests_cost ELSE 0.0 END)"
    )


def _totals(row: Row) -> StepTotals:
    _, status, reused, number, started_at, finished_at, cost, saved = row
    return StepTotals(
        status=RequestStatus(str(status)),
        is_reused=bool(reused),
        number=int(number or 0),
        started_at=None if started_at is None else str(started_at),
        finished_at=None if finished_at is None else str(finished_at),
        cost=max(0.0, float(cost or 0)),
        saved=float(saved or 0),
    )


def _expressions(dialect: Dialect) -> dict[str, str]:
    """SQL expressions by the names of values that `_step` takes."""
    limited = {"command": "r", "runtime_status": "c", "properties": "r", "usage": "c"}
    return {
        **{name: f"r.{name}" for name in _OF_REQUEST},
        **{name: f"c.{name}" for name in _OF_CONTAINER},
        **{
            name: f"CASE WHEN length({alias}.{name}) <= {_LONGEST} THEN {alias}.{name} END"
            for name, alias in limited.items()
        },
        "depends_on": "r.depends_on",
        "container_state": "c.state",
        "state": _status(dialect),
        "is_reused": _REUSED,
    }


def _step(values: dict[str, Any]) -> dict[str, Any]:
    for name in _NESTED:
        values[name] = _decoded(values[name])
    values["is_reused"] = bool(values["is_reused"])
    return values


def _decoded(value: object) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value


async def contents_read(tx: Transaction, containers: Sequence[str]) -> dict[str, list[str]]:
    """The portable data hashes of the collections that containers mount, by container."""
    read: dict[str, list[str]] = {}
    for start in range(0, len(containers), CHUNK):
        batch = containers[start : start + CHUNK]
        rows = await tx.fetch(
            "SELECT container_uuid, portable_data_hash FROM container_inputs"
            f" WHERE container_uuid IN ({', '.join('?' for _ in batch)})"
            " ORDER BY container_uuid, portable_data_hash",
            batch,
        )
        for container, content in rows:
            read.setdefault(str(container), []).append(str(content))
    return read
