"""The rows of permissions follow the graph: after every change they are what a walk over all paths
finds.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lading.core.records.permissions import LEVELS, NAMES, GroupFlags
from lading.core.records.record_types import GROUPS, LINKS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permission_queries, permissions, records
from lading.store.database import Database, Transaction
from lading.store.permissions import COMPUTED
from tests.permission_levels import search

ALICE, BOB, CAROL = USERS_ = [f"zzzzz-tpzed-{name:_>15}" for name in ("alice", "bob", "carol")]
ROLES = [f"zzzzz-j7d0g-{name:_>15}" for name in ("readers", "writers")]
P, Q, R, S = PROJECTS = [f"zzzzz-j7d0g-{name:_>15}" for name in "pqrs"]
FILE = "zzzzz-4zz18-000000000000001"


class Graph:
    """A graph in the database, and the same in memory."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.owners: dict[str, str] = {}
        self.links: dict[tuple[str, str], int] = {}

    async def start(self) -> None:
        for user in USERS_:
            await self._insert(USERS, {"uuid": user, "owner_uuid": "root"})
        for role in ROLES:
            await self._insert(
                GROUPS, {"uuid": role, "owner_uuid": "root", "name": role, "group_class": "role"}
            )

    async def project(self, uuid: str, owner: str, **more: str) -> None:
        await self._insert(
            GROUPS,
            {"uuid": uuid, "owner_uuid": owner, "name": uuid, "group_class": "project", **more},
        )
        self.owners[uuid] = owner

    async def change(self, uuid: str, **changes: str | None) -> None:
        old = await records.get(self.tx, GROUPS, uuid)
        assert old is not None
        await records.update(self.tx, GROUPS, uuid, changes)
        await permission_queries.follow_change(self.tx, GROUPS, old, {**old, **changes})
        if "owner_uuid" in changes:
            self.owners[uuid] = str(changes["owner_uuid"])

    async def link(self, tail: str, head: str, level: int) -> None:
        record = {
            "uuid": f"{tail} {head}",
            "tail_uuid": tail,
            "head_uuid": head,
            "link_class": "permission",
        }
        new = {**LINKS.defaults, **record, "name": NAMES.get(level)}
        old = await records.get(self.tx, LINKS, record["uuid"])
        if not level:
            await records.delete(self.tx, LINKS, record["uuid"])
            await permission_queries.follow_removal(self.tx, LINKS, new)
            self.links.pop((tail, head), None)
        elif old is not None:
            await records.update(self.tx, LINKS, record["uuid"], {"name": NAMES[level]})
            await permission_queries.follow_change(self.tx, LINKS, old, new)
            self.links[tail, head] = level
        else:
            await self._insert(LINKS, new)
            self.links[tail, head] = level

    async def check(self) -> None:
        rows = await self.tx.fetch(f"SELECT user_uuid, target_uuid, perm_level FROM {COMPUTED}")
        found = {(user, target): int(LEVELS[str(name)]) for user, target, name in rows}
        wanted = {
            (u, node): level
            for u in USERS_
            for node, level in search(u, self.owners, self.links).items()
        }
        assert found == wanted

    async def _insert(self, kind: RecordType, record: Record) -> None:
        await records.insert(self.tx, kind, record)
        await permission_queries.follow_insert(self.tx, kind, {**kind.defaults, **record})


@asynccontextmanager
async def a_graph(database: Database) -> AsyncIterator[Graph]:
    async with database.writing() as tx:
        made = Graph(tx)
        await made.start()
        yield made


async def test_projects_follow_their_owners(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.project(Q, P)
        await it.project(R, Q)
        await it.link(BOB, P, 1)
        await it.check()
        await it.change(Q, owner_uuid=CAROL)
        await it.check()
        await it.change(Q, owner_uuid=P)
        await it.check()


async def test_roles_lend_what_they_have(database: Database) -> None:
    readers, writers = ROLES
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.link(readers, P, 2)
        await it.link(BOB, readers, 1)
        await it.link(CAROL, writers, 3)
        await it.link(writers, readers, 2)
        await it.check()
        await it.link(BOB, readers, 3)
        await it.link(writers, readers, 0)
        await it.check()


async def test_managers_of_users_have_what_those_have(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, CAROL)
        await it.link(BOB, CAROL, 3)
        await it.link(ALICE, BOB, 3)
        await it.check()
        await it.link(ALICE, BOB, 2)
        await it.check()


async def test_other_records_are_shared_by_themselves(database: Database) -> None:
    async with a_graph(database) as it:
        await it.link(ROLES[0], FILE, 2)
        await it.link(BOB, ROLES[0], 1)
        await it.check()
        await it.link(ROLES[0], FILE, 0)
        await it.check()


@pytest.mark.parametrize("seed", range(6))
async def test_any_changes_in_any_order(database: Database, seed: int) -> None:
    source = random.Random(seed)
    async with a_graph(database) as it:
        for number, project in enumerate(PROJECTS):
            await it.project(project, source.choice(USERS_ + PROJECTS[:number]))
        for _ in range(25):
            tail, head = (
                source.choice(USERS_ + ROLES),
                source.choice([*USERS_, *ROLES, *PROJECTS, FILE]),
            )
            if source.random() < 0.2:
                number = source.randrange(len(PROJECTS))
                await it.change(
                    PROJECTS[number], owner_uuid=source.choice(USERS_ + PROJECTS[:number])
                )
            elif tail != head:
                await it.link(tail, head, source.randrange(4))
            await it.check()


async def test_more_than_one_statement_holds(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissions, "CHUNK", 2)
    async with a_graph(database) as it:
        for number, project in enumerate(PROJECTS):
            await it.project(project, PROJECTS[number - 1] if number else ALICE)
        for user in USERS_:
            await it.link(user, ROLES[0], 2)
        await it.link(ROLES[0], P, 1)
        await it.change(Q, owner_uuid=CAROL)
        await it.check()


async def test_trash_and_frost_are_inherited(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.project(Q, P, trash_at="5")
        await it.project(R, Q)
        await it.change(P, trash_at="7")
        await it.change(R, frozen_by_uuid=ALICE)
        assert await permissions.group_flags(it.tx, R) == GroupFlags("5", frozen=True)
        assert await permissions.group_flags(it.tx, P) == GroupFlags("7")
        await it.change(Q, owner_uuid=BOB, trash_at=None)
        assert (
            await permissions.group_flags(it.tx, Q)
            == await permissions.group_flags(it.tx, BOB)
            == GroupFlags()
        )
        assert await permissions.group_flags(it.tx, R) == GroupFlags(None, frozen=True)


async def test_what_is_deleted_is_forgotten(database: Database) -> None:
    async with a_graph(database) as it:
        await it.project(P, ALICE)
        await it.link(ROLES[0], P, 1)
        await it.link(BOB, ROLES[0], 3)
        await it.link(CAROL, BOB, 3)
        for kind, uuid in ((USERS, BOB), (GROUPS, P), (GROUPS, ROLES[0])):
            for link in await permission_queries.links_of(it.tx, kind, uuid):
                await records.delete(it.tx, LINKS, link["uuid"])
            await records.delete(it.tx, kind, uuid)
            await permission_queries.follow_removal(it.tx, kind, {"uuid": uuid})
        rows = await it.tx.fetch(
            f"SELECT user_uuid, target_uuid FROM {COMPUTED} ORDER BY user_uuid"
        )
        assert [tuple(row) for row in rows] == sorted([(ALICE, ALICE), (CAROL, CAROL)])


async def test_users_from_before(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, USERS, {"uuid": ALICE})
        assert await permissions.users_outside(tx) == [ALICE]
        await permissions.add_user(tx, ALICE)
        assert await permissions.users_outside(tx) == []
