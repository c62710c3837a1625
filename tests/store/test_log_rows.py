"""Log rows in the short form, and beside them rows that have none: reading and filters."""

from __future__ import annotations

import msgspec

from lading.core.records import log_texts
from lading.core.records.expressions import Query
from lading.core.records.filters import check_filters, check_query
from lading.core.records.log_texts import LogColumns, phrases
from lading.core.records.record_types import LOGS
from lading.core.records.schema import JSON, Record
from lading.store import log_rows, records
from lading.store.database import Database

TIME = "2026-11-30T11:44:50.614789000Z"
COLUMNS = LogColumns(
    "zzzzz-dz642-bgjlnftnmrp1yac",
    "zzzzz-tpzed-t4q7sc7msbjzshn",
    "zzzzz-tpzed-000000000000000",
    TIME,
)
PROPERTIES = {
    "old_etag": "b5e3856e108944bc2ff07198c",
    "old_attributes": {"owner_uuid": COLUMNS.object_owner_uuid, "state": "Queued"},
    "new_etag": "bcf50b2966ee4ab53d3500a5a",
    "new_attributes": {"owner_uuid": COLUMNS.object_owner_uuid, "state": 'it\'s "Locked" ✓?'},
}


def row(number: int, properties: JSON, **columns: JSON) -> Record:
    return {
        "uuid": f"zzzzz-57u5n-{number:015}",
        "object_uuid": COLUMNS.object_uuid,
        "object_owner_uuid": COLUMNS.object_owner_uuid,
        "owner_uuid": COLUMNS.user_uuid,
        "created_at": TIME,
        "event_type": "update",
        "properties": properties,
        **columns,
    }


async def fill(database: Database) -> None:
    """The same properties in the short form and as JSON, others, and none."""
    async with database.writing() as tx:
        short = log_texts.stored(row(1, PROPERTIES), since="")
        assert short["properties"] is None
        plain = log_texts.stored(row(2, PROPERTIES), since="2027")
        assert plain["shortened"] is None
        others = log_texts.stored(row(3, {"text": "t"}, object_uuid=None), since="")
        assert others["shortened"] is None
        for one in (short, plain, others, row(4, None)):
            await records.insert(tx, LOGS, one)


async def found(database: Database, *filters: JSON) -> list[int]:
    async with database.reading() as tx:
        where = check_filters(list(filters), LOGS)
        rows = await records.find(tx, database.dialect, LOGS, where)
    return sorted(int(one["uuid"][-1]) for one in rows)


async def test_both_forms_are_read_alike(database: Database) -> None:
    await fill(database)
    query = Query(select=("uuid", "properties"))
    async with database.reading() as tx:
        every = await records.find(tx, database.dialect, LOGS, ())
        page = await records.search(tx, database.dialect, LOGS, query)
        raw = await records.search(tx, database.dialect, LOGS, query, raw=True)
        one = await records.get(tx, LOGS, "zzzzz-57u5n-000000000000001")
        assert await records.search_texts(tx, database.dialect, LOGS, query) is None
    assert one is not None
    assert one["properties"] == PROPERTIES
    for rows in (every, page, [{**one, "properties": decoded(one)} for one in raw]):
        by_number = {int(one["uuid"][-1]): one["properties"] for one in rows}
        assert by_number == {1: PROPERTIES, 2: PROPERTIES, 3: {"text": "t"}, 4: None}


def decoded(one: Record) -> JSON:
    value = one["properties"]
    return None if value is None else msgspec.json.decode(value)


async def test_filters_on_properties_find_both_forms(database: Database) -> None:
    await fill(database)
    assert await found(database, ["properties.new_etag", "=", PROPERTIES["new_etag"]]) == [1, 2]
    assert await found(database, ["properties.new_etag", "like", "bcf%"]) == [1, 2]
    assert await found(database, ["properties.old_etag", "in", [PROPERTIES["old_etag"]]]) == [1, 2]
    assert await found(database, ["properties.text", "exists", True]) == [3]
    assert await found(database, ["properties", "contains", "new_attributes"]) == [1, 2]
    changed = PROPERTIES["new_attributes"]
    assert await found(database, ["properties.new_attributes", "=", changed]) == [1, 2]
    assert await found(database, ["properties", "=", PROPERTIES]) == [1, 2]
    assert await found(database, ["properties", "!=", PROPERTIES]) == [3, 4]


async def test_equal_properties_are_one_row_of_a_distinct_list(database: Database) -> None:
    await fill(database)
    params = {"select": ["properties"], "distinct": True}
    query = check_query(params, LOGS, max_limit=100)
    async with database.reading() as tx:
        rows = await records.search(tx, database.dialect, LOGS, query)
        assert await records.count(tx, database.dialect, LOGS, query) == 3
    assert len(rows) == 3
    assert PROPERTIES in [one["properties"] for one in rows]


async def test_the_database_knows_each_phrase(database: Database) -> None:
    names = ", ".join("?" for _ in range(6))
    async with database.reading() as tx:
        for code, _ in phrases():
            expected = log_rows.decode(" ".join((*COLUMNS, f"<{code}>")))
            values = (None, f"<{code}>", *COLUMNS)
            rows = await tx.fetch(f"SELECT {log_rows.FUNCTION}({names})", values)
            assert rows[0][0] == expected


def test_older_servers_have_a_day() -> None:
    assert log_rows.first_short(TIME, alone=True) == ""
    assert log_rows.first_short(TIME, alone=False) == "2026-12-01T11:44:50.614789000Z"
