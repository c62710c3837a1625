"""Sealed columns: unreadable without the key, in the file too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lading.core.errors import Corrupt
from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import RECORDS
from lading.store import records, schema
from lading.store.databases.seal import MARK
from lading.store.databases.sqlite import SqliteDatabase
from lading.testing.world import make_seal

SECRET = "v2/zzzzz-gj3su-000000000000000/" + "hush" * 12


def test_what_is_sealed_is_opened_with_the_same_key_for_the_same_column() -> None:
    seal = make_seal()
    one, other = seal.seal(SECRET, column="t.c"), seal.seal(SECRET, column="t.c")
    assert one != other
    assert make_seal().open(one, column="t.c") == seal.open(other, column="t.c") == SECRET
    assert seal.open("written before it was sealed", column="t.c") == "written before it was sealed"
    for wrong, column, text in (
        (make_seal("other"), "t.c", one),
        (seal, "t.d", one),
        (seal, "t.c", MARK + "?"),
        (seal, "t.c", MARK + "AAAA"),
    ):
        with pytest.raises(Corrupt, match="cannot be unsealed"):
            wrong.open(text, column=column)


def test_sealed_fields_are_hidden() -> None:
    sealed = {
        f"{kind.plural}.{one.name}": one.hidden
        for kind in RECORDS
        for one in kind.fields
        if one.sealed
    }
    tables = ("container_requests", "containers")
    assert set(sealed) == {
        "credentials.secret",
        "webhooks.secret",
        "webhooks.former_secret",
        "api_client_authorizations.s3_secret",
        *(f"{one}.{name}" for one in tables for name in ("runtime_token", "secret_mounts")),
    }
    assert all(sealed.values())


async def test_the_file_does_not_hold_the_secret(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    async with database.writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "a", "runtime_token": SECRET})
        await records.insert(tx, CONTAINERS, {"uuid": "b"})
        await records.update(tx, CONTAINERS, "b", {"runtime_token": SECRET})
        found = await records.among(tx, CONTAINERS, "uuid", ["a", "b"])
    assert [row["runtime_token"] for row in found] == [SECRET, SECRET]
    assert "hushhush" not in contents(tmp_path)
    await database.close()
    assert "hushhush" not in contents(tmp_path)


async def test_what_an_earlier_version_wrote_is_sealed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    async with database.writing() as tx:
        await tx.execute("DELETE FROM schema_versions WHERE version > 1")
        await tx.execute("INSERT INTO containers (uuid, runtime_token) VALUES ('a', ?)", (SECRET,))
    await database.close()
    assert "hushhush" in contents(tmp_path)
    for _ in range(2):
        database = SqliteDatabase(tmp_path / "db", seal=make_seal())
        await schema.prepare(database, now="now")
        async with database.reading() as tx:
            found = await records.get(tx, CONTAINERS, "a")
        await database.close()
        assert (found or {})["runtime_token"] == SECRET
        assert "hushhush" not in contents(tmp_path)


async def test_secret_mounts_are_sealed_and_empty_ones_cost_nothing(tmp_path: Path) -> None:
    secret = {"/key": {"kind": "text", "content": SECRET}}
    database = SqliteDatabase(tmp_path / "db", seal=make_seal())
    await schema.prepare(database, now="now")
    async with database.writing() as tx:
        await tx.execute("DELETE FROM schema_versions WHERE version > 5")
        sql = "INSERT INTO containers (uuid, secret_mounts, mounts) VALUES (?, ?, '{}')"
        for uuid, text in (("older", json.dumps(secret)), ("empty", "{}")):
            await tx.execute(sql, (uuid, text))
        await records.insert(tx, CONTAINERS, {"uuid": "new", "secret_mounts": secret})
        await records.insert(tx, CONTAINERS, {"uuid": "changed"})
        await records.update(tx, CONTAINERS, "changed", {"secret_mounts": secret})
    await schema.prepare(database, now="now")
    async with database.reading() as tx:
        found = {
            row["uuid"]: row["secret_mounts"]
            for row in await records.selected(tx, CONTAINERS, "", ())
        }
        stored = {
            str(row[0]): str(row[1])
            for row in await tx.fetch("SELECT uuid, secret_mounts FROM containers")
        }
    await database.close()
    assert found == {"older": secret, "empty": {}, "new": secret, "changed": secret}
    assert {uuid: text.startswith(MARK) for uuid, text in stored.items()} == {
        uuid: uuid != "empty" for uuid in found
    }
    assert stored["empty"] == "{}"
    assert "hushhush" not in contents(tmp_path)


def test_cryptography_is_loaded_only_for_sealed_values() -> None:
    code = (
        "import sys, lading.store.databases.sqlite, lading.store.database; "
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def contents(directory: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in directory.iterdir())
