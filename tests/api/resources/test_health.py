"""The health of the parts of a site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lading.api.server.blocks import STORAGE
from lading.api.server.readiness import READINESS, ReadinessChecks
from lading.core.errors import Corrupt, LadingError, Unavailable
from lading.core.records.schema import Record
from lading.store.database import Database
from lading.testing.world import ApiReply, World, world

VOLUME = {"uuid": "zzzzz-nyw5e-000000000000000", "total": 10, "free": 5, "last_fault": ""}


def _parts(found: Record) -> dict[str, str]:
    return {one["name"]: one["state"] for one in found["parts"]}


async def test_a_site_that_is_well(it: World) -> None:
    await it.ok("POST", "dispatch/statuses", {"items": {}}, token=it.dispatcher)
    found = await it.ok("GET", "health")
    assert _parts(found) == {
        "database": "ok",
        "dispatchers": "ok",
        "storage": "unknown",
        "webhooks": "ok",
    }
    it.clock.advance(400)
    found = await it.ok("GET", "health")
    assert _parts(found)["dispatchers"] == "fault"
    assert "nothing starts" in str(found["parts"])


async def test_users_see_states_alone(it: World) -> None:
    found = await it.ok("GET", "health", token=await it.user("jane"))
    assert [one["text"] for one in found["parts"]] == [""] * 4
    assert found["storage"] is None
    assert (await it.request("GET", "health", token="")).status == 401


class Damaged:
    """A database that can be read alone."""

    fault = Corrupt("db: is damaged")

    def __init__(self, database: Database) -> None:
        self.reading = database.reading
        self.dialect = database.dialect
        self.shared = False


async def test_a_database_that_takes_no_changes(it: World) -> None:
    database = cast(Database, Damaged(it.database))
    it.app = type(it.app)(replace(it.app.services, database=database))
    found = await it.ok("GET", "health")
    assert _parts(found)["database"] == "fault"
    assert "is damaged" in found["parts"][0]["text"]


async def _with(root: Path, answer: Any) -> Record:
    async def look() -> Record:
        if isinstance(answer, Exception):
            raise answer
        found: Record = answer
        return found

    async with world(root) as it:
        it.app.services.features[STORAGE] = look
        found: Record = await it.ok("GET", "health")
        return found


async def test_storage(tmp_path: Path) -> None:
    found = await _with(tmp_path, {"volumes": [VOLUME]})
    assert (_parts(found)["storage"], found["storage"]) == ("ok", {"volumes": [VOLUME]})


async def test_storage_with_faults(tmp_path: Path) -> None:
    gone = VOLUME | {"total": None, "free": None, "last_fault": "no such directory"}
    for name, answer in {
        "gone": {"volumes": [gone]},
        "full": {"volumes": [VOLUME | {"free": 0}]},
        "damaged": {"volumes": [VOLUME], "scrub": {"damaged": [{}]}},
        "raised": Unavailable("no answer"),
    }.items():
        (tmp_path / name).mkdir()
        found = await _with(tmp_path / name, answer)
        assert _parts(found)["storage"] == "fault", name


class Away:
    """A database that does not answer, or refuses."""

    fault = None

    def __init__(self, error: LadingError | None) -> None:
        self.error = error
        self.asked = 0

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()
        yield


def _asking(it: World, database: object, *, patience: float = 3.0) -> ReadinessChecks:
    readiness = ReadinessChecks(patience=patience, fresh=0.0)
    it.app = type(it.app)(replace(it.app.services, database=cast(Database, database)))
    it.app.services.features[READINESS] = readiness
    return readiness


def _refusal(reply: ApiReply) -> tuple[int, str]:
    """Status and sentence, without the id of the call."""
    return reply.status, reply.error.rpartition(" (req-")[0]


async def test_a_server_that_is_ready(it: World) -> None:
    for path in ("/_health/live", "/_health/ready"):
        assert await it.ok("GET", path, token="") == {"health": "OK"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "the database does not answer within 0.01 s"),
        (Unavailable("PostgreSQL at secret-host: away"), "the database cannot be reached"),
        (Corrupt("PostgreSQL: is damaged"), "the database is not in order"),
    ],
)
async def test_a_server_without_its_database_lives_and_is_not_ready(
    it: World, error: LadingError | None, said: str
) -> None:
    readiness = _asking(it, Away(error), patience=0.01 if error is None else 3.0)
    reply = await it.request("GET", "/_health/ready", token="")
    assert _refusal(reply) == (503, f"not ready: {said}")
    assert await it.ok("GET", "/_health/live", token="") == {"health": "OK"}
    await readiness.close()


async def test_a_database_that_takes_no_changes_is_not_ready(it: World) -> None:
    _asking(it, Damaged(it.database))
    reply = await it.request("GET", "/_health/ready", token="")
    assert _refusal(reply) == (503, "not ready: the database is not in order")


async def test_a_server_without_its_block_store_is_not_ready(it: World) -> None:
    _asking(it, it.database)
    it.blocks.damaged = True
    reply = await it.request("GET", "/_health/ready", token="")
    assert _refusal(reply) == (503, "not ready: the block store is not in order")
    it.blocks.damaged = False
    assert await it.ok("GET", "/_health/ready", token="") == {"health": "OK"}


async def test_a_database_that_hangs_is_asked_once(it: World) -> None:
    database = Away(None)
    readiness = _asking(it, database, patience=0.01)
    for _ in range(3):
        assert (await it.request("GET", "/_health/ready", token="")).status == 503
    assert database.asked == 1
    await readiness.close()
