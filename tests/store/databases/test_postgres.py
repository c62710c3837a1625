"""What is particular to PostgreSQL: several processes, lost connections, a crash, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from lading.core.errors import Invalid, Unavailable
from lading.core.records.container_types import CONTAINERS
from lading.core.records.filters import check_filters
from lading.core.records.record_types import COLLECTIONS, LINKS, LOGS
from lading.store import records, schema
from lading.store.database import Database, TransactionInterrupted
from lading.store.databases.postgres import PostgresDatabase
from lading.testing.world import make_seal
from tests.postgres import PostgresServer, emptied, running_postgres

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lading'"


async def opened(server: PostgresServer) -> PostgresDatabase:
    return await PostgresDatabase.open(server.connection(), seal=make_seal())


@pytest.fixture
async def pair(postgres: PostgresServer) -> AsyncIterator[tuple[Database, Database]]:
    """The same database, as two processes have it."""
    await emptied(postgres)
    one, other = await opened(postgres), await opened(postgres)
    yield one, other
    await one.close()
    await other.close()


async def test_processes_take_turns(pair: tuple[Database, Database]) -> None:
    async with pair[0].writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c", "lock_count": 0})

    async def add(database: Database) -> None:
        async with database.writing() as tx:
            row = await records.get(tx, CONTAINERS, "c")
            assert row is not None
            await records.update(tx, CONTAINERS, "c", {"lock_count": row["lock_count"] + 1})

    await asyncio.gather(*(add(pair[number % 2]) for number in range(40)))
    async with pair[1].reading() as tx:
        assert (await records.among(tx, CONTAINERS, "uuid", ["c"]))[0]["lock_count"] == 40


async def test_one_of_many_lockers_wins(pair: tuple[Database, Database]) -> None:
    async with pair[0].writing() as tx:
        await records.insert(tx, CONTAINERS, {"uuid": "c", "state": "Queued"})

    async def lock(database: Database) -> bool:
        async with database.writing() as tx:
            return await records.update(
                tx, CONTAINERS, "c", {"state": "Locked"}, expected={"state": "Queued"}
            )

    assert sum(await asyncio.gather(*(lock(pair[number % 2]) for number in range(20)))) == 1


async def test_one_that_waits_is_not_looked_for_among_all_that_wait(
    pair: tuple[Database, Database], postgres: PostgresServer
) -> None:
    ended = "generate_series(1, 4000) n"
    await postgres.sql(
        f"INSERT INTO containers (uuid, state) SELECT 'c' || n, 'Complete' FROM {ended};"
        "INSERT INTO container_requests (uuid, state, container_uuid) "
        f"SELECT 'r' || n, 'Final', 'c' || n FROM {ended};"
        "ANALYZE containers; ANALYZE container_requests",
        str(postgres.connection()["dbname"]),
    )
    async with pair[0].reading() as tx:
        plan = await tx.fetch(
            "EXPLAIN UPDATE containers SET priority = 1 WHERE uuid = 'c1' AND state = 'Queued'"
        )
        assert "containers_pkey" in str(plan)
        plan = await tx.fetch(
            "EXPLAIN SELECT 1 FROM container_requests "
            "WHERE container_uuid = 'c' AND state = 'Committed'"
        )
        assert "container_requests_container_uuid_state" in str(plan)


async def test_connections_that_were_lost_while_idle_are_replaced(
    pair: tuple[Database, Database], postgres: PostgresServer
) -> None:
    database = pair[0]
    for number in range(2):
        async with database.writing() as tx:
            await records.insert(tx, LINKS, {"uuid": str(number)})
        await postgres.sql(CUT)
    async with database.writing() as tx:
        assert await records.get(tx, LINKS, "1") is not None


async def test_one_that_is_lost_in_a_transaction_changes_nothing(
    pair: tuple[Database, Database], postgres: PostgresServer
) -> None:
    with pytest.raises(TransactionInterrupted, match="connection was lost"):
        async with pair[0].writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "l"})
            await postgres.sql(CUT)
            await records.insert(tx, LINKS, {"uuid": "m"})
    with pytest.raises(Unavailable, match="not known whether"):
        async with pair[0].writing() as tx:
            await records.insert(tx, LINKS, {"uuid": "l"})
            await postgres.sql(CUT)
    async with pair[1].writing() as tx:
        assert await records.find(tx, pair[1].dialect, LINKS, ()) == []


async def test_those_who_share_a_transaction_that_is_lost_try_again(
    pair: tuple[Database, Database], postgres: PostgresServer
) -> None:
    async def add(uuid: str) -> None:
        async with pair[0].writing() as tx:
            await records.insert(tx, LINKS, {"uuid": uuid})
            if uuid == "2":
                await postgres.sql(CUT)

    ends = await asyncio.gather(*map(add, "0123"), return_exceptions=True)
    assert [type(one) for one in ends[:2]] == [TransactionInterrupted, TransactionInterrupted]
    assert isinstance(ends[2], Unavailable)
    assert await _stored(pair[1]) == {
        uuid for uuid, end in zip("0123", ends, strict=True) if end is None
    }


async def _stored(database: Database) -> set[str]:
    """The links that are there; a connection that was cut while it was idle may be met once."""
    try:
        async with database.reading() as tx:
            return {row["uuid"] for row in await records.find(tx, database.dialect, LINKS, ())}
    except TransactionInterrupted:
        return await _stored(database)


async def test_one_that_is_cancelled_takes_its_transaction_with_it(
    pair: tuple[Database, Database],
) -> None:
    begun = asyncio.Event()

    async def add(uuid: str) -> None:
        async with pair[0].writing() as tx:
            await records.insert(tx, LINKS, {"uuid": uuid})
            if uuid == "1":
                begun.set()
                await asyncio.Event().wait()

    tasks = [asyncio.create_task(add(uuid)) for uuid in "01"]
    await begun.wait()
    tasks[1].cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in ends] == [TransactionInterrupted, asyncio.CancelledError]
    await add("2")


async def test_a_query_that_fails_takes_its_transaction_with_it(
    pair: tuple[Database, Database],
) -> None:
    async def add(uuid: str) -> None:
        async with pair[0].writing() as tx:
            if uuid == "1":
                await tx.fetch("no SQL")
            await records.insert(tx, LINKS, {"uuid": uuid})

    ends = await asyncio.gather(*map(add, "01"), return_exceptions=True)
    # The commit of a transaction with an error is a rollback: the first one must hear of it.
    assert [type(end) for end in ends] == [TransactionInterrupted, Unavailable]
    assert await _stored(pair[1]) == set()


async def test_copied_rows_of_a_block_that_fails_are_not_stored(
    pair: tuple[Database, Database],
) -> None:
    async def add(uuid: str) -> None:
        async with pair[0].writing() as tx:
            await tx.insert_all("lease_ids", ("token_uuid", "id"), [(uuid, "1")])
            if uuid == "1":
                raise Invalid("refused after its rows were copied")

    ends = await asyncio.gather(*map(add, "01"), return_exceptions=True)
    assert [type(end) for end in ends] == [TransactionInterrupted, Invalid]
    async with pair[1].reading() as tx:
        assert await tx.fetch("SELECT id FROM lease_ids") == []


async def test_a_numbered_row_of_a_block_that_fails_is_not_stored(
    pair: tuple[Database, Database],
) -> None:
    async def add(uuid: str) -> None:
        async with pair[0].writing() as tx:
            await records.insert(tx, LOGS, {"uuid": uuid, "event_at": "1"})
            if uuid == "1":
                raise Invalid("refused after its row was numbered")

    ends = await asyncio.gather(*map(add, "01"), return_exceptions=True)
    assert [type(end) for end in ends] == [TransactionInterrupted, Invalid]
    async with pair[1].reading() as tx:
        assert await tx.fetch("SELECT uuid FROM logs") == []


async def test_a_reader_that_failed_is_not_used_again(postgres: PostgresServer) -> None:
    await emptied(postgres)
    database = await PostgresDatabase.open(postgres.connection(), seal=make_seal(), readers=1)
    with pytest.raises(Unavailable, match="cannot do that now"):
        async with database.reading() as tx:
            await tx.fetch("no SQL")
    with pytest.raises(Invalid, match="NUL"):
        async with database.reading() as tx:
            await records.get(tx, LINKS, "a\0b")
    async with database.reading() as tx:
        assert await tx.fetch("SELECT 1, 'a', NULL, 5000000000::numeric, 0.5::numeric") == [
            (1, "a", None, 5000000000, 0.5)
        ]
    await database.close()


async def test_nul_is_refused_wherever_it_is(pair: tuple[Database, Database]) -> None:
    for changes in ({"name": "a\0b"}, {"properties": {"k": "a\0b"}}):
        with pytest.raises(Invalid, match="NUL"):
            async with pair[0].writing() as tx:
                await records.insert(tx, COLLECTIONS, {"uuid": "u", **changes})
    async with pair[0].writing() as tx:
        await records.insert(tx, COLLECTIONS, {"uuid": "u", "properties": {"k": "\\u0000"}})
        where = check_filters([["properties.k", "like", "%u0000"]], COLLECTIONS)
        assert len(await records.find(tx, pair[0].dialect, COLLECTIONS, where)) == 1


async def test_announcements_reach_all_and_survive_a_lost_connection(
    pair: tuple[Database, Database], postgres: PostgresServer
) -> None:
    last = 0

    async def announce(uuid: str) -> int:
        async with pair[0].writing() as tx:
            number = await records.insert(tx, LOGS, {"uuid": uuid})
            tx.announce()
        return number

    async with asyncio.timeout(180), aclosing(pair[1].announcements()) as heard:
        await anext(heard)
        for round in range(3):
            wanted = await announce(f"log {round}")
            while last < wanted:
                await anext(heard)
                async with pair[1].reading() as tx:
                    last = int((await tx.fetch("SELECT max(id) FROM logs"))[0][0] or 0)
            await postgres.sql(CUT)


async def test_what_was_acknowledged_survives_a_crash_of_the_server() -> None:
    with running_postgres(("-c", "wal_writer_delay=10s")) as server:
        where = await server.fresh()
        database = await PostgresDatabase.open(where, seal=make_seal())
        await schema.prepare(database, now="now")
        acknowledged: list[str] = []

        async def write(writer: int) -> None:
            for number in range(1000):
                async with database.writing() as tx:
                    await records.insert(tx, LINKS, {"uuid": f"{writer}.{number}"})
                acknowledged.append(f"{writer}.{number}")
                if len(acknowledged) == 60:
                    crash.set()

        crash = asyncio.Event()
        writers = [asyncio.create_task(write(number)) for number in range(4)]
        await crash.wait()
        await asyncio.to_thread(server.stop, "immediate")
        assert all(
            isinstance(one, Unavailable)
            for one in await asyncio.gather(*writers, return_exceptions=True)
        )
        server.start()
        async with database.reading() as tx:
            stored = {row["uuid"] for row in await records.find(tx, database.dialect, LINKS, ())}
        await database.close()
    assert set(acknowledged) <= stored


async def test_while_the_server_is_away() -> None:
    with running_postgres() as server:
        database = await PostgresDatabase.open(await server.fresh(), seal=make_seal(), again=0)
        async with asyncio.timeout(180), aclosing(database.announcements()) as heard:
            await anext(heard)
            await asyncio.to_thread(server.stop, "immediate")
            for _ in range(2):
                with pytest.raises(Unavailable, match="cannot be reached"):
                    async with database.writing():
                        raise AssertionError("there is no server")
            told = asyncio.ensure_future(anext(heard))
            await asyncio.to_thread(server.start)
            await told
            async with database.writing() as tx:
                assert await tx.fetch("SELECT 1") == [(1,)]
        await database.close()


async def test_one_that_waits_for_its_turn_may_be_cancelled(
    pair: tuple[Database, Database],
) -> None:
    async def enter() -> None:
        async with pair[1].writing():
            raise AssertionError("it is not its turn")

    async with pair[0].writing() as tx:
        waiting = asyncio.create_task(enter())
        while not (
            await tx.fetch("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        ):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with pair[1].writing() as tx:
        await records.insert(tx, LINKS, {"uuid": "l"})


async def test_what_is_wrong_with_the_configuration_is_named(postgres: PostgresServer) -> None:
    good = postgres.connection()
    with pytest.raises(Invalid, match="PostgreSQL.Connection.port_number"):
        await PostgresDatabase.open({"port_number": 1}, seal=make_seal())
    with pytest.raises(Invalid, match="/absent: .*check PostgreSQL.Connection"):
        await PostgresDatabase.open({**good, "dbname": "absent"}, seal=make_seal())
    with pytest.raises(Unavailable, match="cannot be reached"):
        await PostgresDatabase.open({**good, "port": 1}, seal=make_seal())


async def test_nested_values_are_checked(postgres: PostgresServer) -> None:
    await emptied(postgres)
    database = await opened(postgres)
    sql = "INSERT INTO collections (uuid, properties) VALUES (?, ?)"
    for text in ("{", '{"k": "\\u0000"}', "[1,]"):
        with pytest.raises(Invalid):
            async with database.writing() as tx:
                await tx.execute(sql, ("refused", text))
    async with database.writing() as tx:
        for uuid, text in (("plain", '{"k": [1, "é"]}'), ("escaped", '{"k": "\\u0001"}')):
            await tx.execute(sql, (uuid, text))
        assert {row[0] for row in await tx.fetch("SELECT uuid FROM collections")} == {
            "plain",
            "escaped",
        }
    await database.close()
