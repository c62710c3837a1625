"""Which changes touch permissions; what they come to is in `test_permissions`."""

from __future__ import annotations

from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, USERS
from lading.store import permission_queries, records
from lading.store.database import Database

USER, ROLE = "zzzzz-tpzed-000000000000001", "zzzzz-j7d0g-000000000000001"


async def test_links_of_a_record(database: Database) -> None:
    link = {"link_class": "permission", "name": "can_read"}
    async with database.writing() as tx:
        await records.insert(tx, LINKS, {**link, "uuid": "in", "tail_uuid": "x", "head_uuid": ROLE})
        await records.insert(
            tx, LINKS, {**link, "uuid": "out", "tail_uuid": ROLE, "head_uuid": "c"}
        )
        await records.insert(tx, LINKS, {"link_class": "tag", "uuid": "tag", "head_uuid": ROLE})
        assert [one["uuid"] for one in await permission_queries.links_of(tx, GROUPS, ROLE)] == [
            "in",
            "out",
        ]
        assert [one["uuid"] for one in await permission_queries.links_of(tx, COLLECTIONS, "c")] == [
            "out"
        ]
        assert await permission_queries.links_of(tx, CONTAINERS, "c") == []


async def test_other_records_are_no_part_of_it(database: Database) -> None:
    tag = {**LINKS.defaults, "uuid": "l", "link_class": "tag", "tail_uuid": USER, "head_uuid": "c"}
    async with database.writing() as tx:
        await permission_queries.follow_insert(tx, USERS, {"uuid": USER})
        before = await tx.fetch("SELECT * FROM grants")
        await permission_queries.follow_insert(tx, COLLECTIONS, {"uuid": "c", "owner_uuid": USER})
        await permission_queries.follow_insert(tx, LINKS, tag)
        await permission_queries.follow_change(tx, LINKS, tag, tag)
        await permission_queries.follow_change(tx, USERS, {"uuid": USER}, {"uuid": USER})
        await permission_queries.follow_removal(tx, COLLECTIONS, {"uuid": "c"})
        group = {**GROUPS.defaults, "uuid": ROLE, "owner_uuid": USER}
        await permission_queries.follow_change(tx, GROUPS, group, {**group, "name": "n"})
        assert await tx.fetch("SELECT * FROM grants") == before
