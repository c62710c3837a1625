"""The users who may read a log row: one query for all of them, equal to that for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from lading.api.logins.authentication import authenticate
from lading.core.records import access
from lading.core.records.expressions import Column, Compare
from lading.core.records.record_types import LOGS
from lading.core.records.schema import Record, Type
from lading.store import event_audiences, records
from lading.store.database import Database
from lading.testing.world import World, world


@pytest.fixture
async def it(database: Database, tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, database=database) as made:
        yield made


async def of(it: World, token: str) -> str:
    """The uuid of a user."""
    return str((await it.ok("GET", "users/current", token=token))["uuid"])


async def link(it: World, tail: str, head: str, name: str = "can_read") -> Record:
    body = {"tail_uuid": tail, "head_uuid": head, "link_class": "permission", "name": name}
    made: Record = await it.ok("POST", "links", body)
    return made


async def life(it: World, tokens: Sequence[str]) -> None:
    """Records of all kinds, owned and shared in all ways, changed and removed."""
    ann, bob, cem = [await of(it, token) for token in tokens[:3]]
    role = await it.ok("POST", "groups", {"group_class": "role", "name": "role"})
    await link(it, bob, role["uuid"], "can_manage")
    await link(it, role["uuid"], bob)
    project = await it.ok(
        "POST", "groups", {"group_class": "project", "name": "p"}, token=tokens[0]
    )
    inner = await it.ok(
        "POST",
        "groups",
        {"group_class": "project", "name": "i", "owner_uuid": project["uuid"]},
        token=tokens[0],
    )
    await link(it, role["uuid"], project["uuid"], "can_manage")
    shared = await it.ok("POST", "collections", {"name": "shared"}, token=tokens[0])
    grant = await link(it, cem, shared["uuid"])
    await it.ok("PUT", f"collections/{shared['uuid']}", {"name": "s"}, token=tokens[0])
    await it.ok("DELETE", f"links/{grant['uuid']}")
    await it.ok("PUT", f"collections/{shared['uuid']}", {"name": "t"}, token=tokens[0])
    for owner in (ann, project["uuid"], inner["uuid"]):
        request = await it.submit("work", owner, owner_uuid=owner, token=tokens[0])
        await it.lock(request["container_uuid"])
    await link(it, cem, request["uuid"])
    webhook = {"url": "https://example.org/hook", "owner_uuid": project["uuid"]}
    await it.request("POST", "webhooks", webhook, token=tokens[0])
    await it.ok("POST", "api_client_authorizations", {}, token=tokens[2])
    await it.ok("PUT", f"users/{bob}", {"first_name": "B"})
    await it.ok("POST", f"groups/{inner['uuid']}/trash", token=tokens[0])
    # A manager of a user has what the user has.
    await link(it, cem, ann, "can_manage")
    await it.ok("POST", "collections", {"name": "late", "owner_uuid": inner["owner_uuid"]})


@pytest.mark.parametrize("few", [1000, 2])
async def test_the_readers_of_each_row(
    it: World, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(event_audiences, "FEW", few)
    tokens = [await it.user(name) for name in ("ann", "bob", "cem", "dan")]
    await life(it, tokens)
    now = it.app.services.clock.now()
    callers = [await authenticate(it.app.services, token) for token in tokens]
    users = {caller.user_uuid: caller for caller in callers if caller is not None}
    async with it.database.reading() as tx:
        rows = await records.selected(tx, LOGS, "", ())
        numbers = [int(row["id"]) for row in rows]
        found = await event_audiences.readers_of(
            tx, it.database.dialect, numbers, users.keys(), now=now
        )
        expected: dict[int, set[str]] = {}
        for number in numbers:
            for user, caller in users.items():
                conditions = access.readable(LOGS, caller, now=now)
                where = (Compare(Column("id", Type.INTEGER), "=", number), *conditions)
                if await records.exists(tx, it.database.dialect, LOGS, where):
                    expected.setdefault(number, set()).add(user)
    assert len(numbers) > 40
    assert dict(found) == expected
    assert {len(one) for one in expected.values()} >= {1, 2, 3}
