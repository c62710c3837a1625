from __future__ import annotations

from lading.store import contents
from lading.store.database import Database


async def _fill(database: Database) -> None:
    rows = (
        (
            "zzzzz-4zz18-a",
            "first",
            ". aaa+1 0:1:f\n",
            2,
            '["default","fast"]',
            "2026-01-01T00:00:00.000000000Z",
        ),
        ("zzzzz-4zz18-b", None, None, None, None, "2026-01-02T00:00:00.000000000Z"),
        (
            "zzzzz-4zz18-c",
            "third",
            ". aaa+1 bbb+1 0:2:f\n",
            None,
            "[]",
            "2026-01-03T00:00:00.000000000Z",
        ),
    )
    async with database.writing() as tx:
        for row in rows:
            await tx.execute(
                "INSERT INTO collections (uuid, name, manifest_text, replication_desired, "
                "storage_classes_desired, modified_at, owner_uuid, portable_data_hash) "
                "VALUES (?, ?, ?, ?, ?, ?, 'o', 'p')",
                row,
            )


async def test_collections_are_read_page_by_page(database: Database) -> None:
    await _fill(database)
    async with database.reading() as tx:
        first, second = await contents.references_after(tx, after="", limit=2)
        (third,) = await contents.references_after(tx, after=second.uuid, limit=2)
        assert (first.replication_desired, first.storage_classes_desired) == (
            2,
            ("default", "fast"),
        )
        assert (
            second.manifest_text,
            second.replication_desired,
            second.storage_classes_desired,
        ) == ("", None, ())
        assert third.manifest_text == ". aaa+1 bbb+1 0:2:f\n"
        found = await contents.references_changed(
            tx, since="2026-01-02T00:00:00.000000000Z", after="", limit=9
        )
        assert [one.uuid for one in found] == ["zzzzz-4zz18-b", "zzzzz-4zz18-c"]
        assert await contents.naming_block(tx, "bbb", limit=9) == [
            ("zzzzz-4zz18-c", "third", third.manifest_text)
        ]
