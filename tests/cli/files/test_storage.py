from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.store.databases.sqlite import SqliteDatabase
from lading.store.schema import prepare
from lading.testing.world import make_seal
from lading.wiring.directory import DataDirectory

FOO, BAR = (hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"foo", b"bar"))


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """A directory with a block that a collection names, and an old one that none does."""
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    directory.secrets(entropy=os.urandom(400))
    database = SqliteDatabase(directory.database, seal=make_seal())
    await prepare(database, now="2026-01-01T00:00:00.000000000Z")
    async with database.writing() as tx:
        await tx.execute(
            "INSERT INTO collections (uuid, name, manifest_text, modified_at, "
            "owner_uuid, portable_data_hash) "
            "VALUES ('zzzzz-4zz18-000000000000000', 'mine', ?, "
            "'2026-01-01T00:00:00.000000000Z', 'o', 'p')",
            (f". {FOO}+3 0:3:file\n",),
        )
    await database.close()
    for hash, content in ((FOO, b"foo"), (BAR, b"bar")):
        (directory.blocks / hash[:3]).mkdir()
        (directory.blocks / hash[:3] / hash).write_bytes(content)
        os.utime(directory.blocks / hash[:3] / hash, (time.time() - 20 * 86400,) * 2)
    return directory.root


def run(data: Path, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["admin", *arguments, "--data", str(data)])
    assert done.exit_code == code, done.output
    return done.output


def test_the_directory_is_that_of_the_environment(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADING_DATA", str(data))
    done = CliRunner().invoke(cli, ["admin", "volumes", "--json"])
    assert json.loads(done.output)["volumes"][0]["blocks"] == 2


def test_the_volumes(data: Path) -> None:
    shown = run(data, "volumes")
    assert "-nyw5e-000000000000000  Directory  ok " in shown
    assert "2       6 B" in shown
    assert "no gc or scrub was done yet" in shown
    (row,) = json.loads(run(data, "volumes", "--json"))["volumes"]
    assert (row["blocks"], row["bytes"], row["read_only"], row["replication"]) == (
        2,
        6,
        False,
        None,
    )
    assert "blocks" not in json.loads(run(data, "volumes", "--no-count", "--json"))["volumes"][0]


def test_a_volume_that_fails_is_shown(data: Path) -> None:
    uuid = "zzzzz-nyw5e-000000000000001"
    (data / "config.yml").write_text(
        f"Volumes: {{{uuid}: {{ReadOnly: true, DriverParameters: {{Root: {data / 'a'}}}}},"
        f" {uuid[:-1]}2: {{Driver: S3, DriverParameters: {{Bucket: b, Endpoint: 'http://127.0.0.1:1',"
        " AccessKeyID: a, SecretAccessKey: b, ConnectTimeout: 1}}}"
    )
    shown = run(data, "volumes")
    assert f"{uuid}  Directory  read-only" in shown
    assert f"{uuid[:-1]}2  S3         failed" in shown
    assert "S3 does not answer" in shown


def test_garbage_is_shown_thrown_away_and_told(data: Path) -> None:
    shown = run(data, "gc", "--dry-run")
    assert f"trash  {BAR}  3 B " in shown
    assert "no collection names it, last put 20 days ago" in shown
    assert "would do: trash 1; nothing was changed" in shown
    assert (data / "blocks" / BAR[:3] / BAR).exists()
    answer = json.loads(run(data, "gc", "--json"))
    assert (answer["done"], answer["failures"], answer["steps"][0]["hash"]) == (
        {"trash": 1},
        [],
        BAR,
    )
    assert not (data / "blocks" / BAR[:3] / BAR).exists()
    assert "done: nothing" in run(data, "gc")
    assert "gc 0." in run(data, "volumes")
    assert "1 (3 B)" in run(data, "volumes")


def test_many_steps_are_cut_short(data: Path) -> None:
    for number in range(30):
        content = str(number).encode()
        hash = hashlib.md5(content, usedforsecurity=False).hexdigest()
        path = data / "blocks" / hash[:3] / hash
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time.time() - 20 * 86400,) * 2)
    assert "and 1 more; --all lists them" in run(data, "gc", "--dry-run")
    assert BAR in run(data, "gc", "--dry-run", "--all")


def test_lost_blocks_end_with_code_1(data: Path) -> None:
    (data / "blocks" / FOO[:3] / FOO).unlink()
    assert f"block {FOO}: a collection names it, and no volume has it" in run(data, "gc", code=1)
    assert "1 block lost" in run(data, "volumes")


def test_a_scrub_names_the_files_that_have_lost_bytes(data: Path) -> None:
    assert "2 blocks, 6 B read; 0 damaged" in run(data, "scrub")
    (data / "blocks" / FOO[:3] / FOO).write_bytes(b"fxo")
    shown = run(data, "scrub", "--rate", "1GiB", code=1)
    assert f"{FOO}  3 B " in shown
    assert "quarantined  mine/file" in shown
    assert "scrub 0." in run(data, "volumes")
    assert "no such volume" in run(data, "scrub", "--volume", "other", code=1)
    (volume,) = json.loads(run(data, "volumes", "--json"))["volumes"]
    assert json.loads(run(data, "scrub", "--volume", volume["uuid"], "--json"))["blocks"] == 1
