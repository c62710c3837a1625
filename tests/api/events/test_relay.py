"""Events of a shared database: what other processes commit is heard here, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.api.events.listeners import Listener
from lading.core.errors import Unavailable
from lading.testing.world import World, world
from tests.postgres import PostgresServer, emptied

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lading'"


@pytest.fixture
async def pair(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[tuple[World, World]]:
    """Two servers on one database."""
    where = await emptied(postgres)
    async with (
        world(tmp_path / "a", postgresql=where) as one,
        world(tmp_path / "b", postgresql=where, seed=8) as other,
    ):
        yield one, other


async def heard(listener: Listener, count: int) -> list[str]:
    async with asyncio.timeout(180):
        return [(await listener.get()).event.object_uuid for _ in range(count)]


async def test_what_another_process_commits_is_heard_in_order(pair: tuple[World, World]) -> None:
    one, other = pair
    with (
        one.app.services.events.bus.listen() as mine,
        other.app.services.events.bus.listen() as theirs,
    ):
        made = [
            (await pair[number % 2].ok("POST", "collections", {}))["uuid"] for number in range(6)
        ]
        assert await heard(mine, 6) == await heard(theirs, 6) == made


async def test_nothing_is_missed_while_the_connection_is_away(
    pair: tuple[World, World], postgres: PostgresServer
) -> None:
    one, other = pair
    one.app.relay.page = 2
    with one.app.services.events.bus.listen() as mine:
        made = []
        for _ in range(5):
            await postgres.sql(CUT)
            made.append((await other.ok("POST", "collections", {}))["uuid"])
        assert await heard(mine, 5) == made


async def test_far_more_than_anybody_can_follow_is_left_out(pair: tuple[World, World]) -> None:
    one, _ = pair
    one.app.relay.page, one.app.relay.most_behind = 2, 10
    specs = [await one.spec(str(number), use_existing=False) for number in range(12)]
    with one.app.services.events.bus.listen() as mine:
        await one.ok("POST", "container_requests/batch", {"container_requests": specs})
        while not mine.lost:
            await heard(mine, 1)
    # Nobody listens: what is left out is not missed, and the next one hears what comes then.
    await one.ok("POST", "container_requests/batch", {"container_requests": specs})
    with one.app.services.events.bus.listen() as later:
        made = (await one.ok("POST", "collections", {}))["uuid"]
        while (await heard(later, 1)) != [made]:
            pass


async def test_a_database_that_cannot_answer_is_asked_again(
    pair: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    one.app.relay.pause = 0
    failed = asyncio.Event()
    database = one.app.services.database
    real = database.reading

    def fail() -> Any:
        monkeypatch.setattr(database, "reading", real)
        failed.set()
        raise Unavailable

    monkeypatch.setattr(database, "reading", fail)
    with one.app.services.events.bus.listen() as mine:
        made = (await other.ok("POST", "collections", {}))["uuid"]
        await failed.wait()
        assert await heard(mine, 1) == [made]
