"""Positions, holds and dead letters of webhooks, on each database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lading.core.records.schema import Record
from lading.core.records.service_records import WEBHOOKS
from lading.core.webhooks.schedule import DeliveryProgress
from lading.store import records, webhooks
from lading.store.database import Database, Transaction
from lading.store.leases import WorkLease
from lading.store.webhooks import DeadLetter, DeliveryAttempt, WebhookPosition

ONE, TWO, THREE = (f"zzzzz-hk4wb-00000000000000{number}" for number in (1, 2, 3))
LETTER = DeadLetter(log_id=4, event_type="t", is_queued=False, fault="f", failed_at="1")


def lease(holder: str, until: str) -> WorkLease:
    return WorkLease(holder=holder, held_until=until)


@pytest.fixture
async def stored(database: Database) -> Database:
    """One and two are active, three is paused; all are at 5."""
    async with database.writing() as tx:
        for uuid, state in ((ONE, "Active"), (TWO, "Active"), (THREE, "Paused")):
            made: Record = {**WEBHOOKS.defaults, "uuid": uuid, "owner_uuid": "u", "url": "x"}
            await records.insert(tx, WEBHOOKS, {**made, "state": state, "modified_at": "1"})
            await webhooks.start(tx, uuid, 5)
    return database


async def due(tx: Transaction, *, last: int = 9, now: str = "1") -> list[str]:
    return [one.webhook_uuid for one in await webhooks.due(tx, last=last, now=now, most=9)]


async def position(tx: Transaction, uuid: str) -> WebhookPosition:
    found = await webhooks.find(tx, uuid)
    assert found is not None
    return found


async def test_active_ones_with_new_rows_are_due(stored: Database) -> None:
    async with stored.writing() as tx:
        assert sorted(await due(tx)) == [ONE, TWO]
        assert await due(tx, last=5) == []
        await webhooks.pass_over(tx, [ONE, THREE], position=5, to=9, now="1")
        await webhooks.pass_over(tx, [TWO], position=4, to=9, now="1")
        assert await due(tx) == [TWO]
        assert await webhooks.counts(tx) == {"active": 2, "failing": 0, "paused": 1}


async def test_only_an_active_one_is_a_reason_to_look(stored: Database) -> None:
    async with stored.writing() as tx:
        assert await webhooks.has_active(tx)
        await tx.execute("UPDATE webhooks SET state = 'Paused'")
        assert not await webhooks.has_active(tx)


async def test_one_holds_a_webhook_at_a_time(stored: Database) -> None:
    async with stored.writing() as tx:
        assert await webhooks.take(tx, ONE, lease("a", "3"), now="1")
        assert not await webhooks.take(tx, ONE, lease("b", "9"), now="2")
        assert await due(tx, now="2") == [TWO]
        await webhooks.pass_over(tx, [ONE], position=5, to=9, now="2")
        held = await position(tx, ONE)
        assert held.position == 5
        # The first holder is late.
        assert await webhooks.take(tx, ONE, lease("b", "9"), now="3")
        assert not await webhooks.save(tx, replace(held, position=6), lease("a", "9"))
        await webhooks.LEASES.release(tx, ONE, "a")
        assert await webhooks.save(tx, replace(held, position=7), lease("b", "9"))
        await webhooks.LEASES.release(tx, ONE, "b")
        assert (await position(tx, ONE)).position == 7


async def test_progress_is_stored(stored: Database) -> None:
    progress = DeliveryProgress(attempts=2, failures=3, failing_since="1")
    async with stored.writing() as tx:
        await webhooks.take(tx, ONE, lease("a", "2"), now="1")
        changed = replace(
            await position(tx, ONE), progress=progress, next_at="8", delivered=4,
            delivered_at="0", fault="no answer",
        )  # fmt: skip
        assert await webhooks.save(tx, changed, lease("a", ""))
        assert await position(tx, ONE) == changed
        assert await due(tx, now="7") == [TWO]
        assert (await webhooks.counts(tx))["failing"] == 1
        await webhooks.start(tx, ONE, 7)
        again = await position(tx, ONE)
        assert (again.position, again.progress, again.delivered) == (7, DeliveryProgress(), 4)


async def test_dead_letters_are_queued_and_go_first(stored: Database) -> None:
    async with stored.writing() as tx:
        for number in (4, 3):
            await webhooks.bury(tx, ONE, replace(LETTER, log_id=number))
        await webhooks.bury(tx, TWO, LETTER)
        assert (await position(tx, ONE)).progress.dead == 2
        assert await webhooks.queue_letters(tx, ONE, [4, 99]) == 1
        assert await webhooks.queue_letters(tx, ONE, []) == 0
        assert (await position(tx, ONE)).queued == 4
        assert await due(tx, last=0) == [ONE]
        assert await webhooks.queue_letters(tx, ONE, None) == 1
        found = await position(tx, ONE)
        assert (found.queued, found.progress.dead) == (3, 0)
        await webhooks.unbury(tx, ONE, 3)
        await webhooks.bury(tx, ONE, replace(LETTER, fault="again"))
        [left] = await webhooks.letters(tx, ONE, most=9)
        assert left == replace(LETTER, fault="again")


async def test_what_belongs_to_no_webhook_goes(stored: Database) -> None:
    async with stored.writing() as tx:
        await webhooks.bury(tx, ONE, LETTER)
        await webhooks.forget(tx, ONE)
        assert await webhooks.find(tx, ONE) is None
        assert await webhooks.letters(tx, ONE, most=9) == []
        await webhooks.bury(tx, TWO, LETTER)
        await records.delete(tx, WEBHOOKS, TWO)
        assert await webhooks.sweep(tx, now="1") == 1
        assert await webhooks.letters(tx, TWO, most=9) == []


async def test_former_secrets_that_ended_are_deleted(stored: Database) -> None:
    kept = {"former_secret": "whsec_old", "former_secret_until": "5"}
    async with stored.writing() as tx:
        for uuid in (ONE, TWO):
            await records.update(tx, WEBHOOKS, uuid, kept)
        await records.update(tx, WEBHOOKS, TWO, {"former_secret_until": "6"})
        await webhooks.sweep(tx, now="5")
        found = {uuid: await records.get(tx, WEBHOOKS, uuid) for uuid in (ONE, TWO)}
    assert {uuid: row and row["former_secret"] for uuid, row in found.items()} == {
        ONE: None, TWO: "whsec_old",
    }  # fmt: skip


async def test_the_next_due_time_is_that_of_a_delay_or_a_hold(stored: Database) -> None:
    async with stored.writing() as tx:
        assert await webhooks.next_due(tx, last=9, now="1") == ""
        await webhooks.take(tx, ONE, lease("a", "4"), now="1")
        assert await webhooks.next_due(tx, last=9, now="1") == "4"
        changed = replace(await position(tx, ONE), next_at="7")
        await webhooks.save(tx, changed, lease("a", "4"))
        assert await webhooks.next_due(tx, last=9, now="1") == "7"
        # Nothing to send, or its time has come: it does not wait.
        assert await webhooks.next_due(tx, last=5, now="1") == ""
        assert await webhooks.next_due(tx, last=9, now="7") == ""


async def test_positions_of_several(stored: Database) -> None:
    async with stored.reading() as tx:
        found = await webhooks.among(tx, [TWO, THREE, "zzzzz-hk4wb-none"])
        assert {one.webhook_uuid for one in found} == {TWO, THREE}
        assert await webhooks.among(tx, []) == []


async def test_the_latest_attempts_are_kept(stored: Database) -> None:
    one = DeliveryAttempt(
        log_id=1, event_type="t", outcome="failed", status=503, fault="f", tried_at="1"
    )
    async with stored.writing() as tx:
        for number in range(23):
            await webhooks.note_attempt(tx, ONE, replace(one, log_id=number))
        await webhooks.note_attempt(tx, TWO, one)
        found = await webhooks.attempts(tx, ONE)
        assert [each.log_id for each in found] == list(range(22, 2, -1))
        assert found[0] == replace(one, log_id=22)
        await webhooks.forget(tx, ONE)
        assert await webhooks.attempts(tx, ONE) == []
        await records.delete(tx, WEBHOOKS, TWO)
        await webhooks.sweep(tx, now="1")
        assert await webhooks.attempts(tx, TWO) == []
