"""lading admin hands over to the wiring, and tells what came of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from click.testing import CliRunner

from lading.cli.main import cli
from lading.store.sqlite import SqliteDatabase
from lading.testing.sealing import make_seal
from lading.wiring.directory import DataDirectory


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
    assert json.loads(run("backup", tmp_path / "c", "--data", directory.root, "--json"))["blocks"] == 0
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
