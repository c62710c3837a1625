"""The health of the parts of a site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lading.core.errors import Corrupt, Unavailable
from lading.core.records.schema import Record
from lading.store.database import Database
from lading.testing.world import World, world

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
        object.__setattr__(it.app.services, "storage", look)
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
