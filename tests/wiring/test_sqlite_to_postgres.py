"""Records that move from SQLite to PostgreSQL: the same before and after, or nothing at all."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from lading.core.errors import Conflict, Invalid
from lading.core.records.record_types import RECORDS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Database
from lading.store.databases.postgres import PostgresDatabase
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import world
from lading.wiring.directory import DataDirectory
from lading.wiring.stores import MOVED, move_records
from tests.postgres import PostgresServer
from tests.store.older import fill


def seal(directory: DataDirectory) -> Seal:
    return Seal(directory.secrets().system_root_token, entropy=os.urandom)


async def everything(database: Database) -> dict[str, list[Record]]:
    async with database.reading() as tx:
        found = {
            kind.plural: await records.find(tx, database.dialect, kind, ())
            for kind in RECORDS
            if kind.stored
        }
    return {name: sorted(rows, key=lambda row: str(row["uuid"])) for name, rows in found.items()}


@pytest.fixture
async def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    made.prepare()
    made.secrets(entropy=os.urandom(400))
    database = SqliteDatabase(made.database, seal=seal(made))
    from lading.store import schema

    await schema.prepare(database, now="now")
    async with world(tmp_path, database=database) as it:
        await fill(it)
    await database.close()
    return made


async def connect(directory: DataDirectory, server: PostgresServer) -> dict[str, str | int]:
    where = dict(await server.fresh())
    (directory.root / "config.yml").write_text(
        yaml.safe_dump({"PostgreSQL": {"Connection": where}})
    )
    return where


async def test_all_of_it_is_there_then(
    directory: DataDirectory, postgres: PostgresServer, tmp_path: Path
) -> None:
    where = await connect(directory, postgres)
    old = SqliteDatabase(directory.database, seal=seal(directory))
    before = await everything(old)
    await old.close()
    reported: list[tuple[int, int]] = []
    moved = await asyncio.to_thread(
        move_records, directory, progress=lambda *now: reported.append(now)
    )
    assert {name: moved[name] for name in before} == {
        name: len(rows) for name, rows in before.items()
    }
    assert reported[-1] == (sum(moved.values()), sum(moved.values()))
    assert (directory.database.exists(), (directory.root / MOVED).exists()) == (False, True)
    new = await PostgresDatabase.open(where, seal=seal(directory))
    assert await everything(new) == before
    async with world(tmp_path / "new", database=new, seed=11) as it:
        made = await it.submit("anew")
        await it.run(made["container_uuid"])
        last = await it.ok("GET", "logs", params={"order": "id desc", "limit": 1})
        assert last["items"][0]["id"] > max(row["id"] for row in before["logs"])
        reused = await it.submit(
            "echo", "1", token=await it.user("ada2"), container_image=made["container_image"]
        )
        assert reused["state"] in ("Committed", "Final")
    await new.close()


async def test_a_record_with_a_nul_is_named(
    directory: DataDirectory, postgres: PostgresServer
) -> None:
    await connect(directory, postgres)
    old = SqliteDatabase(directory.database, seal=seal(directory))
    # As versions of Lading stored it that did not check texts in JSON.
    async with old.writing() as tx:
        rows = await tx.fetch("SELECT uuid FROM collections ORDER BY uuid LIMIT 1")
        uuid = str(rows[0][0])
        await tx.execute(
            "UPDATE collections SET properties = ? WHERE uuid = ?",
            ('{"a": "\\\\u0000", "k": "a\\u0000b"}', uuid),
        )
    await old.close()
    with pytest.raises(Invalid, match=f"{uuid}: properties has a NUL character") as refused:
        await asyncio.to_thread(move_records, directory, progress=lambda *_: None)
    assert len(refused.value.message) <= 300
    assert directory.database.exists()


async def test_a_database_in_use_is_left_alone(
    directory: DataDirectory, postgres: PostgresServer
) -> None:
    where = await connect(directory, postgres)
    await asyncio.to_thread(move_records, directory, progress=lambda *_: None)
    (directory.root / MOVED).rename(directory.database)
    with pytest.raises(Conflict, match="has users already; make a new, empty one"):
        await asyncio.to_thread(move_records, directory, progress=lambda *_: None)
    assert directory.database.exists()
    held = directory.claim()
    with pytest.raises(Conflict, match="lading down --data .* stops it"):
        move_records(directory, progress=lambda *_: None)
    os.close(held)
    assert where["dbname"]


def test_what_is_missing_is_told(directory: DataDirectory, tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match=r"config\.yml: name the new database first, in PostgreSQL\.Connection"
    ):
        move_records(directory, progress=lambda *_: None)
    with pytest.raises(Invalid, match="no records there"):
        move_records(DataDirectory(tmp_path / "none"), progress=lambda *_: None)
