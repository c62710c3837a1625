"""Writing down when tokens were used, and shortening the trail."""

from __future__ import annotations

from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import LOGS, TOKENS
from lading.core.records.schema import JSON
from lading.store import records, upkeep
from lading.store.database import Database, Transaction


async def test_tokens_are_marked_once_and_never_back(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, TOKENS, {"uuid": "t"})
        assert await upkeep.mark_used(tx, {"t": ("2026-02", "::1"), "gone": ("2026-02", "")}) == 1
        assert await upkeep.mark_used(tx, {"t": ("2026-01", "")}) == 0
        found = await records.get(tx, TOKENS, "t")
    assert found is not None
    assert (found["last_used_at"], found["last_used_by_ip_address"]) == ("2026-02", "::1")


async def test_the_trail_is_shortened_in_pieces(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, REQUESTS, {"uuid": "r"})
        for number in range(5):
            row = {
                "uuid": f"l{number}",
                "created_at": f"2026-0{number + 1}",
                "event_type": "update",
            }
            await records.insert(tx, LOGS, row)
        for number, about in enumerate(("r", "gone")):
            row = {
                "uuid": f"r{number}",
                "created_at": "2026-01",
                "event_type": "resolve",
                "object_uuid": about,
            }
            await records.insert(tx, LOGS, row)
    after, total, more = 0, 0, True
    while more:
        async with database.writing() as tx:
            after, deleted, more = await upkeep.prune_logs(
                tx, after=after, before="2026-04", limit=2
            )
        total += deleted
    async with database.reading() as tx:
        left = {row["uuid"] for row in await records.find(tx, database.dialect, LOGS, ())}
    assert left == {"l3", "l4", "r0", "r1"}
    assert total == 3


async def test_former_owners_of_earlier_moves(database: Database) -> None:
    async def add(tx: Transaction, uuid: str, event_type: str, **properties: JSON) -> None:
        row = {"uuid": uuid, "event_type": event_type, "properties": properties}
        await records.insert(tx, LOGS, row)

    async with database.writing() as tx:
        a, b = {"owner_uuid": "a", "name": "n"}, {"owner_uuid": "b", "name": "n"}
        await add(tx, "moved", "update", old_attributes=a, new_attributes=b)
        await add(tx, "stayed", "update", old_attributes=a, new_attributes=a)
        await add(tx, "made", "create", new_attributes=b)
        await add(tx, "other", "update", text="t")
        await upkeep.fill_former_owners(tx)
        found = await records.find(tx, database.dialect, LOGS, ())
    assert {row["uuid"]: row["former_owner_uuid"] for row in found} == {
        "moved": "a", "stayed": None, "made": None, "other": None
    }  # fmt: skip
