"""lading admin hands over to the wiring, and tells what came of it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal
from lading.wiring import dispatcher
from lading.wiring.directory import DataDirectory
from lading.wiring.dispatcher import Membership
from tests.postgres import PostgresServer


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


def test_a_dispatcher_is_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invite(_: DataDirectory, file: Path, *, for_arvados: bool) -> Membership:
        assert not for_arvados
        return Membership(api="https://h:1", token=f"v2/uuid/{file.name}")

    monkeypatch.setattr(dispatcher, "invite", invite)
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
    assert done.stderr.endswith("db.sqlite.moved is what was there before\n")


def run_error(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["admin", *map(str, arguments)])
    assert done.exit_code == 1
    return done.stderr
