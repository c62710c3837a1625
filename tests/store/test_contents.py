"""Questions about collections."""

from __future__ import annotations

from lading.core.records import COLLECTIONS
from lading.store import contents, records
from lading.store.database import Database


async def test_content_and_names(database: Database) -> None:
    row = {"owner_uuid": "u", "portable_data_hash": "p", "manifest_text": "m", "file_count": 2, "file_size_total": 9}
    async with database.writing() as tx:
        await records.insert(tx, COLLECTIONS, {**row, "uuid": "a", "current_version_uuid": "a", "name": "n"})
        assert await contents.name_taken(tx, "u", "n", besides="b")
        assert not await contents.name_taken(tx, "u", "n", besides="a")
        assert not await contents.name_taken(tx, "u", "x", besides="b")
        assert await contents.manifest_of(tx, "p") == ("m", 2, 9)
        assert await contents.manifest_of(tx, "q") is None
        assert await contents.has_content(tx, "p", "1", reader="u", trashed=False)
        assert not await contents.has_content(tx, "p", "1", reader="v", trashed=False)
        assert not await contents.has_content(tx, None, "1", reader=None, trashed=True)
        await records.update(tx, COLLECTIONS, "a", {"trash_at": "0"})
        assert not await contents.has_content(tx, "p", "1", reader=None, trashed=False)
        assert await contents.has_content(tx, "p", "1", reader=None, trashed=True)
