"""Questions about collections."""

from __future__ import annotations

from lading.core.records.record_types import COLLECTIONS
from lading.store import contents, records
from lading.store.database import Database


async def test_content_and_names(database: Database) -> None:
    row = {
        "owner_uuid": "u",
        "portable_data_hash": "p",
        "manifest_text": "m",
        "file_count": 2,
        "file_size_total": 9,
        "storage_classes_confirmed": ["default"],
    }
    async with database.writing() as tx:
        await records.insert(
            tx, COLLECTIONS, {**row, "uuid": "a", "current_version_uuid": "a", "name": "n"}
        )
        assert await contents.names_taken(tx, "u", ["n", "x"], besides="b") == {"n"}
        assert await contents.names_taken(tx, "u", ["n", "x"], besides="a") == set()
        assert await contents.names_taken(tx, "u", []) == set()
        known = {"p": contents.StoredContent("m", 2, 9, ("default",))}
        names = [("u", "n"), ("u", "x"), ("v", "n")]
        assert await contents.for_keeping(tx, ["q", "p"], names) == (known, {("u", "n")})
        assert await contents.for_keeping(tx, ["p"], []) == (known, set())
        assert await contents.for_keeping(tx, [], names) == ({}, {("u", "n")})
        assert await contents.for_keeping(tx, [], []) == ({}, set())
        assert await contents.present(tx, ["q", "p"], "1", reader="u") == {"p"}
        assert await contents.present(tx, ["p"], "1", reader="v") == set()
        assert await contents.present(tx, [], "1", reader=None) == set()
        await records.update(tx, COLLECTIONS, "a", {"trash_at": "0"})
        assert await contents.present(tx, ["p"], "1", reader=None) == set()
        assert await contents.present(tx, ["p"], "1", reader=None, trashed=True) == {"p"}


async def test_past_versions_change_alike(database: Database) -> None:
    row = {"portable_data_hash": "p", "owner_uuid": "u", "current_version_uuid": "a"}
    async with database.writing() as tx:
        for uuid in "abc":
            await records.insert(tx, COLLECTIONS, {**row, "uuid": uuid})
        await records.insert(tx, COLLECTIONS, {**row, "uuid": "z", "current_version_uuid": "z"})
        await contents.update_versions(tx, "a", {"owner_uuid": "v"})
        found = await records.among(tx, COLLECTIONS, "uuid", "abcz")
    assert {one["uuid"]: one["owner_uuid"] for one in found} == {
        "a": "u",
        "b": "v",
        "c": "v",
        "z": "u",
    }
