"""The sweep."""

from __future__ import annotations

from lading.core.records.record_types import COLLECTIONS, TOKENS
from lading.store import records, upkeep
from lading.store.database import Database


async def test_sweep(database: Database) -> None:
    async with database.writing() as tx:
        for uuid, trash_at, delete_at in (
            ("a", None, None),
            ("b", "1", "9"),
            ("c", "1", "2"),
            ("d", "9", "9"),
        ):
            row = {"uuid": uuid, "trash_at": trash_at, "delete_at": delete_at}
            await records.insert(tx, COLLECTIONS, row)
        await records.insert(tx, TOKENS, {"uuid": "old", "expires_at": "1"})
        await records.insert(tx, TOKENS, {"uuid": "new", "expires_at": "4"})
        assert await upkeep.sweep(tx, now="5", tokens_before="3") == (2, 1, 1)
        left = {
            row["uuid"]: row["is_trashed"]
            for row in await records.find(tx, database.dialect, COLLECTIONS, ())
        }
    assert left == {"a": False, "b": True, "d": False}
