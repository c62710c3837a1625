"""The check before an upgrade, on the databases that earlier versions left."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import format_time
from lading.store import schema
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.databases.upgrade_check import check_database, check_file
from lading.testing.world import START, make_seal
from tests.postgres import PostgresServer

SCHEMAS = Path(__file__).parents[1] / "schemas"


def stored(directory: Path, version: int) -> Path:
    """The SQLite file that a version left."""
    with closing(sqlite3.connect(directory / "db")) as connection:
        connection.executescript((SCHEMAS / f"sqlite_{version}.sql").read_text())
    return directory / "db"


@pytest.mark.parametrize("version", [1, 2, 4])
async def test_an_older_file(tmp_path: Path, version: int) -> None:
    path = stored(tmp_path, version)
    before = path.read_bytes()
    found = check_file(path)
    assert found.present == version
    assert len(found.steps) == schema.VERSION - version
    assert path.read_bytes() == before, "nothing is changed"
    database = SqliteDatabase(path, seal=make_seal())
    assert await check_database(database) == found
    await schema.prepare(database, now=format_time(START))
    after = check_file(path)
    assert (after.present, after.steps, after.columns) == (schema.VERSION, (), ())
    await database.close()


async def test_an_older_database_of_postgresql(postgres: PostgresServer) -> None:
    where = await postgres.fresh()
    await postgres.sql((SCHEMAS / "postgresql_4.sql").read_text(), str(where["dbname"]))
    database = await PostgresDatabase.open(where, seal=make_seal())
    found = await check_database(database)
    assert found.present == 4
    assert found.columns
    await schema.prepare(database, now=format_time(START))
    assert (await check_database(database)).steps == ()
    await database.close()


def test_a_new_database(tmp_path: Path) -> None:
    assert check_file(tmp_path / "none").present is None
    assert not (tmp_path / "none").exists()
    with closing(sqlite3.connect(tmp_path / "empty")) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert check_file(tmp_path / "empty").present is None


def test_a_later_file_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = stored(tmp_path, 4)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO schema_versions (version, applied_at) VALUES (99, 'later')")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(Invalid, match=r"of version 99, this program of \d+: use a later release"):
        check_file(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database at all, but long enough to be read as one" * 9)
    with pytest.raises(Invalid, match="text: cannot be used as a database"):
        check_file(tmp_path / "text")
