"""Steps of runs: counted and read by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.request_status import RequestStatus, request_status
from lading.core.runs import attempts
from lading.store import records
from lading.store.containers import lineage
from lading.store.database import Database, Row, Transaction, Value
from lading.store.runs import steps

STATES: list[dict[str, Any]] = [
    {"state": "Queued"},
    {"state": "Locked"},
    {"state": "Running", "started_at": "3"},
    {"state": "Complete", "exit_code": 0, "started_at": "2", "finished_at": "5", "cost": 2.0},
    {"state": "Complete", "exit_code": 1, "started_at": "3", "finished_at": "7"},
    {"state": "Cancelled"},
    {"state": "Cancelled", "runtime_status": {"failure": "oom", "error": "no memory"}},
]


async def add(
    tx: Transaction,
    number: int,
    owner: str,
    state: str,
    container: dict[str, Any] | None,
    **more: Any,
) -> None:
    uuid = f"{number:05}" if container is not None else None
    if container is not None:
        row = {**CONTAINERS.defaults, "uuid": uuid, "created_at": "1", **container}
        await records.insert(tx, CONTAINERS, row)
    request = {
        **REQUESTS.defaults,
        "uuid": f"{number:05}",
        "owner_uuid": owner,
        "created_at": f"{number:05}",
        "state": state,
        "container_uuid": uuid,
        **more,
    }
    await records.insert(tx, REQUESTS, request)


class RecordedStatements:
    """A transaction that notes the texts of its queries."""

    def __init__(self, tx: Transaction, statements: set[str]) -> None:
        self._tx = tx
        self._statements = statements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def fetch(self, sql: str, values: Sequence[Value] = (), **more: Any) -> list[Row]:
        self._statements.add(sql)
        return await self._tx.fetch(sql, values, **more)


async def test_the_status_of_each_step_is_that_of_its_request(database: Database) -> None:
    expected: list[RequestStatus] = []
    async with database.writing() as tx:
        for state in ("Uncommitted", "Committed", "Final"):
            for container in (None, *STATES):
                held = container or {}
                failure = (held.get("runtime_status") or {}).get("failure")
                status = request_status(
                    state, held.get("state"), exit_code=held.get("exit_code"), failure=failure
                )
                await add(tx, len(expected), "run", state, container)
                expected.append(status)
        await add(tx, 99, "other", "Committed", None)
        scope = steps.owned_scope(
            database.dialect, "k", "run", since="", number=None, is_latest=True
        )
        rows = await steps.find(tx, database.dialect, scope, limit=99, after=None)
        assert [row["state"] for row in rows] == [str(status) for status in expected]
        totals = (await steps.totals(tx, database.dialect, [scope]))["k"]
        later = await steps.find(
            tx, database.dialect, scope, limit=2, after=(rows[3]["created_at"], rows[3]["uuid"])
        )
    for status in RequestStatus:
        number = sum(row.number for row in totals if row.status is status)
        assert number == expected.count(status)
    assert [row["uuid"] for row in later] == [row["uuid"] for row in rows[4:6]]
    assert rows[-1]["runtime_status"] == {"failure": "oom", "error": "no memory"}


async def test_money_and_times(database: Database) -> None:
    async with database.writing() as tx:
        own = {"created_at": "9", "cost": 2.0, "subrequests_cost": 1.0}
        ended = {"state": "Complete", "exit_code": 0, "started_at": "a", "finished_at": "c"}
        await add(tx, 1, "run", "Final", {**own, **ended}, cumulative_cost=3.5)
        earlier = {**own, **ended, "created_at": "0"}
        await add(tx, 2, "run", "Final", earlier, created_at="1", cumulative_cost=0.0)
        scope = steps.owned_scope(
            database.dialect, "k", "run", since="", number=None, is_latest=True
        )
        none = steps.asked_scope(database.dialect, "none", [], ())
        totals = await steps.totals(tx, database.dialect, [scope, none])
    reused, fresh = sorted(totals["k"], key=lambda row: not row.is_reused)
    # With its earlier attempts, without the requests that it made.
    assert (fresh.cost, fresh.saved, reused.cost, reused.saved) == (2.5, 0.0, 0.0, 3.0)
    assert (fresh.started_at, fresh.finished_at) == ("a", "c")
    assert totals["none"] == []


async def test_runs_of_the_same_kinds_have_one_statement(database: Database) -> None:
    def scope(key: str, number: int | None) -> steps.RunScope:
        return steps.owned_scope(
            database.dialect, key, key, since="", number=number, is_latest=False
        )

    scopes = [scope("a", None), scope("b", 2), scope("c", None)]
    statements: set[str] = set()
    async with database.writing() as tx:
        await add(tx, 1, "a", "Final", None)
        await add(tx, 2, "b", "Final", None, properties={attempts.ATTEMPT: 2})
        recorder = cast(Transaction, RecordedStatements(tx, statements))
        for ordered in (scopes, scopes[::-1], scopes[1:] + scopes[:1]):
            totals = await steps.totals(recorder, database.dialect, ordered)
            numbers = {key: sum(row.number for row in rows) for key, rows in totals.items()}
            assert numbers == {"a": 1, "b": 1, "c": 0}
    assert len(statements) == 1


@pytest.mark.parametrize(
    ("number", "is_latest", "found"), [(1, False, [1]), (2, True, [0, 2]), (3, True, [0])]
)
async def test_steps_of_an_attempt(
    database: Database, number: int, is_latest: bool, found: list[int]
) -> None:
    async with database.writing() as tx:
        for attempt in range(3):
            properties = {attempts.ATTEMPT: attempt} if attempt else {}
            await add(tx, attempt, "run", "Final", None, properties=properties)
        scope = steps.owned_scope(
            database.dialect, "k", "run", since="", number=number, is_latest=is_latest
        )
        rows = await steps.find(tx, database.dialect, scope, limit=9, after=None)
    assert [int(row["uuid"]) for row in rows] == found


async def test_long_commands_are_left_out(database: Database) -> None:
    async with database.writing() as tx:
        await add(tx, 1, "run", "Final", None, command=["x" * 9000], depends_on=["a"])
        scope = steps.owned_scope(
            database.dialect, "k", "run", since="", number=None, is_latest=True
        )
        (row,) = await steps.find(tx, database.dialect, scope, limit=9, after=None)
    assert (row["command"], row["depends_on"]) == (None, ["a"])


async def test_contents_that_steps_read(database: Database) -> None:
    mounts = {"/in": {"kind": "collection", "portable_data_hash": "h"}}
    async with database.writing() as tx:
        await lineage.note_inputs(tx, {"uuid": "c", "mounts": mounts})
        assert await steps.contents_read(tx, ["c", "d"]) == {"c": ["h"]}
