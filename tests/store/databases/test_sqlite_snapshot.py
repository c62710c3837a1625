"""Copies of a database in use."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lading.core.errors import Corrupt, Unavailable
from lading.core.records.record_types import COLLECTIONS
from lading.store import records, schema
from lading.store.databases.copying import check_database, copy_database, manifests
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal


async def test_a_copy_is_what_was_committed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    async with database.writing() as tx:
        await records.insert(tx, COLLECTIONS, {"uuid": "a", "manifest_text": "m"})
    reported: list[tuple[int, int]] = []
    async with database.writing() as tx:
        await records.insert(tx, COLLECTIONS, {"uuid": "b", "manifest_text": "uncommitted"})
        copy_database(
            tmp_path / "db",
            tmp_path / "copy",
            progress=lambda done, total: reported.append((done, total)),
        )
    await database.close()
    check_database(tmp_path / "copy")
    assert list(manifests(tmp_path / "copy")) == ["m"]
    assert reported[-1][0] == reported[-1][1] > 0


def test_what_is_not_sound_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/none"):
        copy_database(tmp_path / "none", tmp_path / "copy", progress=lambda *_: None)
    (tmp_path / "db").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(Corrupt, match="not a sound database"):
        check_database(tmp_path / "db")


def test_what_cannot_be_copied_is_told(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(Corrupt, match="db"):
        copy_database(tmp_path / "db", tmp_path / "copy", progress=lambda *_: None)


def test_a_damaged_page_is_found(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    connection.close()
    check_database(path)
    data = bytearray(path.read_bytes())
    data[5 * 4096 : 6 * 4096] = b"\0" * 4096
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="not a sound database"):
        check_database(path)
