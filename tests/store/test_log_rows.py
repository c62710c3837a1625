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


async def fill_whole(database: Database) -> list[Record]:
    """A row of the server in the short form and one in the long one, which differ in their number
    alone; one that repeats nothing; one of a user that has null. They are returned as written.
    """
    whole = row(1, PROPERTIES)
    whole |= log_texts.repeated(whole)
    apart = {
        "event_at": "2026-11-30T11:44:51.000000000Z",
        "modified_at": "2026-11-30T11:44:52.000000000Z",
        "modified_by_user_uuid": COLUMNS.object_owner_uuid,
        "summary": "told otherwise",
    }
    none: Record = dict.fromkeys(apart)
    rows = [whole, whole | {"uuid": row(2, None)["uuid"]}, row(3, PROPERTIES, **apart)]
    rows.append(row(4, {"text": "t"}, **none))
    async with database.writing() as tx:
        for one, since in zip(rows, ("", "2027", "", "2027"), strict=True):
            await records.insert(tx, LOGS, log_texts.stored(one, since=since))
        (left_out,) = await tx.fetch(
            "SELECT event_at, modified_at, modified_by_user_uuid, summary FROM logs WHERE uuid = ?",
            (whole["uuid"],),
        )
    assert left_out == (None,) * 4
    return rows


async def test_columns_that_repeat_others_are_read_from_those(database: Database) -> None:
    rows = await fill_whole(database)
    names = tuple(rows[0])
    async with database.reading() as tx:
        every = await records.matching(tx, LOGS, object_uuid=COLUMNS.object_uuid)
        page = await records.search(tx, database.dialect, LOGS, Query(select=names))
        brief = Query(select=("uuid", "event_at"))
        assert await records.search_texts(tx, database.dialect, LOGS, brief) is None
    for found_rows in (every, page):
        found_rows.sort(key=lambda one: str(one["uuid"]))
        assert [{name: one[name] for name in names} for one in found_rows] == rows


async def test_filters_on_columns_that_repeat_others(database: Database) -> None:
    await fill_whole(database)
    assert await found(database, ["event_at", "=", TIME]) == [1, 2]
    assert await found(database, ["event_at", ">", TIME]) == [3]
    assert await found(database, ["modified_at", "=", None]) == [4]
    assert await found(database, ["modified_at", "!=", None]) == [1, 2, 3]
    assert await found(database, ["modified_by_user_uuid", "in", [COLUMNS.user_uuid]]) == [1, 2]
    assert await found(database, ["summary", "like", "update of %"]) == [1, 2]
    assert await found(database, ["summary", "=", "told otherwise"]) == [3]


async def test_lists_are_in_the_order_of_columns_that_repeat_others(database: Database) -> None:
    await fill_whole(database)
    for distinct in (False, True):
        params = {"select": ["summary"], "order": ["summary desc"], "distinct": distinct}
        query = check_query(params, LOGS, max_limit=100)
        async with database.reading() as tx:
            rows = await records.search(tx, database.dialect, LOGS, query)
        said = [one["summary"] for one in rows]
        usual = f"update of {COLUMNS.object_uuid}"
        assert said == [usual, *([] if distinct else [usual]), "told otherwise", None]
