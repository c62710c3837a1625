"""Log rows for tests that look for secrets in them."""

from __future__ import annotations

from lading.core.records.filters import check_filters
from lading.core.records.record_types import LOGS
from lading.store import records
from lading.testing.world import World


async def log_texts(it: World, object_uuid: str = "") -> list[str]:
    """A text for each log row, of one object or of all: its stored columns, short forms among
    them, and the record that readers get.
    """
    where = check_filters([["object_uuid", "=", object_uuid]] if object_uuid else [], LOGS)
    async with it.database.reading() as tx:
        rows = await records.find(tx, it.database.dialect, LOGS, where)
        stored = {str(row[0]): row for row in await tx.fetch("SELECT uuid, logs.* FROM logs")}
    assert any("new_attributes" in (row["properties"] or {}) for row in rows), "no changes are read"
    return [f"{stored[row['uuid']]} {row}" for row in rows]
