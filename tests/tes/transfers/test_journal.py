"""The seam to stored transfers; tests/store/test_transfers has its behaviour."""

from __future__ import annotations

from lading.store.database import Database
from lading.store.transfers import StoredTransfers
from lading.tes.transfers.journal import IdempotencyKeys, TransferJournal, TransferReader
from tests.tes.site import TaskWorld


def roles(database: Database) -> tuple[TransferJournal, TransferReader, IdempotencyKeys]:
    """The database has all three roles: the type checker compares their methods."""
    stored = StoredTransfers(database)
    return stored, stored, stored


async def test_the_database_is_a_journal(it: TaskWorld) -> None:
    journal, reader, keys = roles(it.world.database)
    assert await journal.ended(most=1) == []
    assert await reader.read(["none"]) == {}
    assert await keys.claim_key("k", now="2", since="1", stale="1") is None
