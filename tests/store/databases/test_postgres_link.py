"""Addresses, the pool of readers, and the flush that many share."""

from __future__ import annotations

import asyncio

import pytest

from lading.core.errors import Invalid
from lading.store.databases import postgres_link
from lading.store.databases.postgres_link import PostgresAddress, PostgresReaders, PostgresWriter
from tests.postgres import PostgresServer, emptied


def test_an_address_shows_nothing_secret() -> None:
    made = PostgresAddress.of(
        {"host": "h", "port": 5433, "dbname": "d", "user": "u", "password": "hush", "sslmode": ""}
    )
    assert str(made) == "h:5433/d"
    with pytest.raises(Invalid, match="unknown key"):
        PostgresAddress.of({"hots": "h"})


async def test_no_more_readers_than_there_is_room_for(postgres: PostgresServer) -> None:
    readers = PostgresReaders(PostgresAddress.of(await emptied(postgres)), 2)
    one, other = await readers.take(), await readers.take()
    third = asyncio.create_task(readers.take())
    await asyncio.sleep(0)
    assert not third.done()
    readers.give(one, spoilt=False)
    assert await third is one
    readers.give(other, spoilt=True)
    readers.give(one, spoilt=False)
    await one.close()
    fresh = await readers.take()
    assert fresh not in (one, other)
    readers.give(fresh, spoilt=False)
    await readers.close()
    assert fresh.is_closed()


async def test_many_share_a_flush(postgres: PostgresServer) -> None:
    address = PostgresAddress.of(await emptied(postgres))
    sent: list[str] = []
    flusher = await address.reach()
    flusher.add_query_logger(lambda record: sent.append(record.query))
    writer = PostgresWriter(await address.reach(), flusher)
    await asyncio.gather(*(writer.durable() for _ in range(50)))
    assert 1 <= len(sent) <= 2
    assert not writer.closed
    await writer.close()
    assert writer.closed


async def test_an_unusable_sslmode_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(Invalid, match="PostgreSQL.Connection"):
        await PostgresAddress.of({**await emptied(postgres), "sslmode": "perhaps"}).connect()
    assert postgres_link.read_number("12") == 12
    assert postgres_link.read_number("1.5") == 1.5
