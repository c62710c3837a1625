"""Blocks that share a commit, and changes that share a statement."""

from __future__ import annotations

import asyncio

import pytest

from lading.store.database import (
    Batches,
    Deferred,
    Group,
    Placeholders,
    TransactionInterrupted,
    settle,
)
from lading.store.databases.postgres import changed_table


def insert(table: str, *values: int) -> Deferred:
    return Deferred(
        sql=f"INSERT INTO {table} (a, b) VALUES (?, ?)", values=values, row=f"{table} {values}"
    )


def update(value: int) -> Deferred:
    return Deferred(sql="UPDATE t SET a = ? WHERE b = '?'", values=(value,), row="t", missed="gone")


def test_rows_of_a_table_are_stored_together_and_changes_are_counted() -> None:
    changes = [insert("t", 1, 2), update(5), insert("u", 3, 4), insert("t", 6, 7), update(8)]
    batches = Batches(Placeholders())
    batch = batches.write(changes)
    assert batch.statement == (
        "WITH part0 AS (INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)),"
        " part1 AS (UPDATE t SET a = $5 WHERE b = '?' RETURNING 1),"
        " part2 AS (INSERT INTO u (a, b) VALUES ($6, $7)),"
        " part3 AS (UPDATE t SET a = $8 WHERE b = '?' RETURNING 1)"
        " SELECT (SELECT count(*) FROM part1), (SELECT count(*) FROM part3)"
    )
    assert batch.values(changes) == [1, 2, 6, 7, 5, 3, 4, 8]
    assert batch.checked == (1, 4)
    assert batches.write(changes) is batch
    assert (
        batches.write(changes[:1]).statement
        == "WITH part0 AS (INSERT INTO t (a, b) VALUES ($1, $2)) SELECT 1"
    )


def test_what_follows_the_rows_of_an_insert_follows_all_of_them() -> None:
    sql = "INSERT INTO t VALUES (?, ?) ON CONFLICT DO NOTHING"
    changes = [Deferred(sql=sql, values=(one, 0), row=f"t {one}") for one in range(3)]
    batch = Batches(Placeholders()).write(changes)
    assert batch.statement == (
        "WITH part0 AS (INSERT INTO t VALUES ($1, $2), ($3, $4), ($5, $6) "
        "ON CONFLICT DO NOTHING) SELECT 1"
    )


def test_no_more_statements_are_remembered_than_there_is_room_for() -> None:
    batches = Batches(Placeholders())
    first = batches.write([insert("t", 1, 2)])
    for number in range(600):
        batches.write([insert(f"t{number}", 1, 2)])
    assert batches.write([insert("t", 1, 2)]) is not first


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        ("INSERT INTO t (a, b) VALUES (?, ?)", ("t", True)),
        ("INSERT INTO t (a) SELECT a FROM u", ("t", True)),
        ("UPDATE t SET a = ?", ("t", False)),
        ("DELETE FROM t WHERE a = ?", ("t", False)),
    ],
)
def test_the_table_of_a_change(sql: str, changed: tuple[str, bool]) -> None:
    assert changed_table(sql) == changed


async def test_those_who_wait_are_told_and_those_who_left_are_not() -> None:
    done: list[str] = []
    group = Group()
    one, other = (
        group.join([lambda: done.append("one")]),
        group.join([lambda: done.append("other")]),
    )
    other.cancel()
    await asyncio.sleep(0)
    group.committed()
    settle(group.waiters, None)
    await one
    assert done == ["one", "other"]
    late = Group()
    waiter = late.join([])
    late.undone()
    with pytest.raises(TransactionInterrupted, match="try again"):
        await waiter
