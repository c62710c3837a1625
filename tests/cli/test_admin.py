"""lading admin hands over to the wiring, and tells what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.schema import VERSION
from lading.supervisor import journal
from lading.testing.world import make_seal
from lading.wiring import further_dispatcher
from lading.wiring.directory import DataDirectory
from lading.wiring.further_dispatcher import Membership
from lading.wiring.stores import check_upgrade
from tests.postgres import PostgresServer

SCHEMAS = Path(__file__).parents[1] / "store" / "schemas"


async def test_backup_and_restore(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    database = SqliteDatabase(directory.database, seal=make_seal())
    async with database.writing() as tx:
        await tx.execute("CREATE TABLE collections (manifest_text TEXT)")
    done = run("backup", tmp_path / "b", "--data", directory.root)
    assert done == f"lading: {tmp_path}/b has 0 blocks, 0 B; it holds secrets: keep it safe\n"
    assert "verified" in run("restore", tmp_path / "b", "--data", tmp_path / "r")
    assert (
        json.loads(run("backup", tmp_path / "c", "--data", directory.root, "--json"))["blocks"] == 0
    )
    async with database.writing() as tx:
        await tx.execute("INSERT INTO collections VALUES (?)", (f". {'a' * 32}+1 0:1:f\n",))
    await database.close()
    run("backup", tmp_path / "d", "--data", directory.root)
    assert "not in the backup" in run("restore", tmp_path / "d", "--data", tmp_path / "s", code=1)
    answer = json.loads(run("restore", tmp_path / "d", "--data", tmp_path / "t", "--json", code=1))
    assert answer["missing"] == ["a" * 32]


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["admin", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_cache_is_cleared_while_nothing_runs(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    (directory.cache / "layers").mkdir()
    container = directory.run / "zzzzz-dz642-000000000000000"
    supervisor = journal.acquire_lock(container)
    said = run_error("clear-cache", "--data", directory.root)
    assert "a container still runs" in said
    os.close(supervisor)
    lock = directory.claim()
    assert "serves this directory" in run_error("clear-cache", "--data", directory.root)
    os.close(lock)
    run("clear-cache", "--data", directory.root)
    assert not directory.cache.exists()
    assert not container.exists()
    assert directory.blocks.exists()


def test_a_dispatcher_is_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invite(_: DataDirectory, file: Path, *, for_arvados: bool) -> Membership:
        assert not for_arvados
        return Membership(api="https://h:1", token=f"v2/uuid/{file.name}")

    monkeypatch.setattr(further_dispatcher, "invite", invite)
    said = run("dispatcher-token", tmp_path / "join", "--data", tmp_path)
    assert (
        said == f"lading: {tmp_path}/join admits one dispatcher to https://h:1; "
        "it holds a secret: keep it safe\n"
    )
    assert json.loads(run("dispatcher-token", tmp_path / "join", "--json")) == {
        "file": f"{tmp_path}/join",
        "token_uuid": "uuid",
        "api": "https://h:1",
    }


def test_the_records_move_to_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    directory.database.touch()
    assert "name the new database first" in run_error("move-records", "--data", directory.root)
    connection = dict(asyncio.run(postgres.fresh()))
    (directory.root / "config.yml").write_text(
        json.dumps({"PostgreSQL": {"Connection": connection}})
    )
    done = CliRunner().invoke(cli, ["admin", "move-records", "--data", str(directory.root)])
    assert (done.exit_code, done.stdout.split()) == (0, ["RECORDS", "MOVED"])
    assert done.stderr.endswith("db.sqlite.moved has the records from before\n")


def run_error(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["admin", *map(str, arguments)])
    assert done.exit_code == 1
    return done.stderr


def test_an_upgrade(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    assert "no data here" in run("upgrade", "--check", "--data", tmp_path / "none", code=1)
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    assert "no records yet" in run("upgrade", "--check", "--data", directory.root)
    text = (SCHEMAS / "sqlite_4.sql").read_text()
    with closing(sqlite3.connect(directory.database)) as connection:
        connection.executescript(text)
        connection.execute("UPDATE container_requests SET secret_mounts = NULL")
        connection.execute("UPDATE containers SET secret_mounts = NULL")
        connection.commit()
    said = run("upgrade", "--check", "--data", directory.root)
    assert "which is of version 4, and would bring it to version" in said
    assert "seal secret mounts" in said
    assert "would add" in said
    done = json.loads(run("upgrade", "--data", directory.root, "--json"))
    assert done["done"]
    assert done["found"] == 4
    assert "nothing to do" in run("upgrade", "--check", "--data", directory.root)


def test_an_upgrade_of_a_later_database_is_refused(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    with closing(sqlite3.connect(directory.database)) as connection:
        connection.executescript((SCHEMAS / "sqlite_4.sql").read_text())
        connection.execute("INSERT INTO schema_versions (version, applied_at) VALUES (99, 'x')")
        connection.commit()
    for option in (["--check"], []):
        said = run("upgrade", *option, "--data", directory.root, code=1)
        assert "use a later release" in said


async def test_an_upgrade_on_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    where = await postgres.fresh()
    await postgres.sql((SCHEMAS / "postgresql_4.sql").read_text(), str(where["dbname"]))
    settings = {"PostgreSQL": {"Connection": where}}
    (directory.root / "config.yml").write_text(json.dumps(settings))
    assert (await check_upgrade(directory)).present == 4


def test_an_upgrade_that_only_adds_columns(tmp_path: Path) -> None:
    """An earlier release may have the same version, and fewer columns."""
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    with closing(sqlite3.connect(directory.database)) as connection:
        connection.executescript((SCHEMAS / "sqlite_11.sql").read_text())
        connection.execute("INSERT INTO schema_versions VALUES (?, 'x', '')", (VERSION,))
        connection.commit()
    said = run("upgrade", "--check", "--data", directory.root)
    assert f"columns to the database, which is of version {VERSION}\n" in said
    assert "STEP" not in said
    assert "added" in run("upgrade", "--data", directory.root)
