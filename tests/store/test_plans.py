"""Lists of a long queue are read in the order of an index, not sorted."""

from __future__ import annotations

import pytest

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Column, Compare, SortKey
from lading.core.records.filters import check_query
from lading.core.records.record_types import COLLECTIONS, LOGS
from lading.core.records.schema import Record, RecordType, Type
from lading.core.wes.listing import IS_RUN
from lading.store import records
from lading.store.cancellations import page, page_query
from lading.store.containers import waiting
from lading.store.containers.live import LIVE_COUNTS, WARNED, live_counts, warned
from lading.store.database import Database, Transaction
from lading.store.query import ConditionWriter, order_by, page_statement

_ROWS = 3000


@pytest.mark.parametrize(
    ("kind", "state"),
    [(REQUESTS, "Committed"), (CONTAINERS, "Queued")],
    ids=["requests", "containers"],
)
async def test_those_in_a_state_are_listed_in_the_default_order_without_sorting(
    database: Database, kind: RecordType, state: str
) -> None:
    params = {"filters": [["state", "=", state]], "count": "none"}
    query = check_query(params, kind, max_limit=1000)
    writer = ConditionWriter(database.dialect, kind.plural)
    condition, order = (
        writer.where(query.where),
        order_by(database.dialect, query.order, kind.plural),
    )
    sql = f"SELECT uuid FROM {kind.plural}{condition}{order} LIMIT ?"
    async with database.writing() as tx:
        for number in range(_ROWS):
            # The times have nothing to do with the order in which the rows were made.
            row = {
                "uuid": f"{number:027}",
                "state": state,
                "modified_at": f"{number * 7919 % _ROWS:020}",
            }
            await records.insert(tx, kind, row)
        if database.shared:
            # As PostgreSQL does by itself after a while.
            await tx.execute(f"ANALYZE {kind.plural}")
        plan = await _plan(tx, database, sql, (*writer.values, 5))
    assert f"{kind.plural}_state_modified_at_uuid" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan


async def test_the_newest_request_is_found_without_sorting_all(database: Database) -> None:
    query = check_query({"order": ["created_at desc"], "limit": 1}, REQUESTS, max_limit=1000)
    sql, values = page_statement(database.dialect, REQUESTS.plural, query, "uuid")
    async with database.writing() as tx:
        for number in range(_ROWS):
            row = {"uuid": f"{number:027}", "created_at": f"{number:030}"}
            await records.insert(tx, REQUESTS, row)
        if database.shared:
            await tx.execute("ANALYZE container_requests")
        plan = await _plan(tx, database, sql, tuple(values))
    # Equal times alone are sorted.
    assert "container_requests_created_at_uuid" in plan


@pytest.mark.parametrize("descending", [False, True])
async def test_log_rows_are_read_in_the_order_of_their_numbers_without_sorting(
    database: Database, descending: bool
) -> None:
    order = order_by(database.dialect, (SortKey("id", descending=descending),), LOGS.plural)
    async with database.writing() as tx:
        rows = [(f"{number:027}",) for number in range(_ROWS)]
        await records.add_all(tx, LOGS, ("uuid",), rows)
        if database.shared:
            await tx.execute("ANALYZE logs")
        plan = await _plan(tx, database, f"SELECT id FROM logs WHERE id > ?{order} LIMIT 1", (5,))
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("operator", ["=", "in"])
async def test_the_last_log_rows_of_an_object_are_found_by_the_object(
    database: Database, operator: str
) -> None:
    params = {
        "filters": [["object_uuid", operator, ["0"] if operator == "in" else "0"]],
        "order": ["id desc"],
        "limit": 1,
    }
    query = check_query(params, LOGS, max_limit=10)
    sql, values = page_statement(database.dialect, LOGS.plural, query, "uuid")
    async with database.writing() as tx:
        for first, count in ((0, 10), (10, _ROWS)):
            rows = [(f"{first + row:027}", str((first + row) // 2)) for row in range(count)]
            await records.add_all(tx, LOGS, ("uuid", "object_uuid"), rows)
            # The statistics are older than most rows.
            if database.shared and not first:
                await tx.execute("ANALYZE logs")
        plan = await _plan(tx, database, sql, tuple(values))
        assert await tx.fetch(sql, values) == [(f"{1:027}",)]
    assert "logs_object_uuid" in plan


@pytest.mark.parametrize("operator", ["=", "in"])
async def test_children_of_a_container_are_looked_up(database: Database, operator: str) -> None:
    parent = f"{'p':0>27}"
    given = [parent, "other"] if operator == "in" else parent
    params = {"filters": [["requesting_container_uuid", operator, given]], "count": "none"}
    query = check_query(params, REQUESTS, max_limit=1000)
    writer = ConditionWriter(database.dialect, REQUESTS.plural)
    sql = f"SELECT uuid FROM {REQUESTS.plural}{writer.where(query.where)}"
    async with database.writing() as tx:
        for number in range(_ROWS):
            await records.insert(tx, REQUESTS, {"uuid": f"{number:027}", "state": "Final"})
        if database.shared:
            await tx.execute(f"ANALYZE {REQUESTS.plural}")
        plan = await _plan(tx, database, sql, tuple(writer.values))
    assert "sparse_container_requests_requesting_container_uuid_state" in plan


async def test_runs_of_workflows_are_listed_without_reading_all_requests(
    database: Database,
) -> None:
    order = ["created_at desc", "uuid desc"]
    params = {"filters": [IS_RUN], "order": order, "count": "none"}
    query = check_query(params, REQUESTS, max_limit=1000)
    writer = ConditionWriter(database.dialect, REQUESTS.plural)
    condition = writer.where(query.where)
    ordered = order_by(database.dialect, query.order, REQUESTS.plural)
    sql = f"SELECT uuid FROM {REQUESTS.plural}{condition}{ordered} LIMIT ?"
    async with database.writing() as tx:
        for number in range(_ROWS):
            row = {
                "uuid": f"{number:027}",
                "created_at": f"{number * 7919 % _ROWS:020}",
                "properties": {"wes": {}} if number % 3 == 0 else {},
            }
            await records.insert(tx, REQUESTS, row)
        if database.shared:
            await tx.execute(f"ANALYZE {REQUESTS.plural}")
        plan = await _plan(tx, database, sql, (*writer.values, 258))
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan


async def test_containers_that_have_not_ended_are_counted_in_an_index(database: Database) -> None:
    async with database.writing() as tx:
        for number in range(_ROWS):
            state = "Queued" if number % 100 == 0 else "Complete"
            row = {"uuid": f"{number:027}", "state": state, "priority": number % 3}
            await records.insert(tx, CONTAINERS, row)
        if database.shared:
            await tx.execute("ANALYZE containers")
        plan = await _plan(tx, database, LIVE_COUNTS, ())
        assert await live_counts(tx) == {
            "Queued": 20,
            "On hold": 10,
            "Locked": 0,
            "Running": 0,
        }
    # Of the containers that have ended none is read.
    assert "containers_state_" in plan
    assert "Seq Scan" not in plan
    if not database.shared:
        # Of the others the index alone.
        assert "COVERING INDEX containers_state_priority" in plan


async def test_warnings_are_looked_up_by_uuid(database: Database) -> None:
    async with database.writing() as tx:
        for number in range(_ROWS):
            row: Record = {"uuid": f"{number:027}", "state": "Queued"}
            row["runtime_status"] = {"warning": "w"} if number == 7 else {}
            await records.insert(tx, CONTAINERS, row)
        if database.shared:
            await tx.execute("ANALYZE containers")
        uuids = [f"{number:027}" for number in range(900)]
        plan = await _plan(tx, database, WARNED.format(", ".join("?" * 900)), tuple(uuids))
        assert await warned(tx, uuids) == {uuids[7]: "w"}
    # Not all that wait: they are looked up each second.
    assert "containers_state_" not in plan


@pytest.mark.parametrize("left", [100, 2000, 6000])
async def test_pages_of_a_cancellation_are_read_from_an_index(
    database: Database, left: int
) -> None:
    committed = (Compare(Column("state", Type.STRING), "=", "Committed"),)
    async with database.writing() as tx:
        for number in range(2 * _ROWS):
            row = {"uuid": f"{number:027}", "state": "Committed", "created_at": f"{number:030}"}
            await records.insert(tx, REQUESTS, row)
        if database.shared:
            await tx.execute("ANALYZE container_requests")
        sql, values = page_query(database.dialect, committed, (f"{left:030}", ""), 50)
        plan = await _plan(tx, database, sql, tuple(values))
        rows = await page(tx, database.dialect, committed, (f"{left:030}", ""), size=50)
    assert [row["uuid"] for row in rows] == [f"{left - 1 - one:027}" for one in range(50)]
    assert "container_requests_state_created_at" in plan
    # Of all that are left only those of the page.
    assert "Bitmap" not in plan


async def test_requests_in_resolution_are_found_without_reading_all_that_wait(
    database: Database,
) -> None:
    async with database.writing() as tx:
        for number in range(_ROWS):
            row = {"uuid": f"{number:027}", "state": "Committed", "container_uuid": f"c{number}"}
            await records.insert(tx, REQUESTS, row)
        if database.shared:
            await tx.execute("ANALYZE container_requests")
        plan = await _plan(tx, database, waiting.RESOLVING, (9,))
    assert "container_requests_container_uuid_state" in plan


async def test_waiting_workflow_runners_are_found_without_reading_all_that_wait(
    database: Database,
) -> None:
    asked: Record = {
        "filters": [["state", "=", "Queued"], ["priority", ">", 0],
                    ["scheduling_parameters.supervisor", "=", True]],
        "order": ["priority desc", "created_at asc", "uuid asc"],
    }  # fmt: skip
    query = check_query(asked, CONTAINERS, max_limit=1000)
    sql, values = page_statement(database.dialect, CONTAINERS.plural, query, "uuid")
    async with database.writing() as tx:
        for number in range(_ROWS):
            parameters = {"partitions": ['"supervisor":true'], "supervisor": number % 1000 == 0}
            row = {"uuid": f"{number:027}", "state": "Queued", "priority": number + 1}
            await records.insert(tx, CONTAINERS, row | {"scheduling_parameters": parameters})
        if database.shared:
            await tx.execute("ANALYZE containers")
        plan = await _plan(tx, database, sql, tuple(values))
        found = await tx.fetch(sql, tuple(values))
    assert [str(row[0])[-4:] for row in found] == ["2000", "1000", "0000"]
    assert "true_containers_scheduling_parameters_supervisor" in plan


async def _plan(tx: Transaction, database: Database, sql: str, values: tuple[object, ...]) -> str:
    explain = "EXPLAIN" if database.shared else "EXPLAIN QUERY PLAN"
    return "\n".join(" ".join(map(str, row)) for row in await tx.fetch(f"{explain} {sql}", values))  # type: ignore[arg-type]


async def test_collections_of_an_owner_are_listed_without_reading_all_of_them(
    database: Database,
) -> None:
    owner = f"{'o':0>27}"
    params = {
        "filters": [["owner_uuid", "=", owner]],
        "order": ["created_at desc", "uuid desc"],
        "count": "none",
    }
    query = check_query(params, COLLECTIONS, max_limit=1000)
    writer = ConditionWriter(database.dialect, COLLECTIONS.plural)
    condition = writer.where(query.where)
    ordered = order_by(database.dialect, query.order, COLLECTIONS.plural)
    sql = f"SELECT uuid FROM {COLLECTIONS.plural}{condition}{ordered} LIMIT ?"
    async with database.writing() as tx:
        for number in range(_ROWS):
            row = {
                "uuid": f"{number:027}",
                "current_version_uuid": f"{number:027}",
                "name": str(number),
                "owner_uuid": owner if number % 2 else "other",
                "created_at": f"{number * 7919 % _ROWS:020}",
            }
            await records.insert(tx, COLLECTIONS, row)
        if database.shared:
            await tx.execute(f"ANALYZE {COLLECTIONS.plural}")
        plan = await _plan(tx, database, sql, (*writer.values, 11))
    # In the order of time from an index; the uuid decides among those of one time alone.
    assert "collections_owner_uuid_created_at" in plan or "collections_created_at_uuid" in plan
