"""Rows of fair share: accounts and tickets."""

from __future__ import annotations

from dataclasses import replace

from lading.core.policy.fair_share import ShareAccount, Ticket
from lading.store import fair_shares
from lading.store.database import Database
from lading.store.fair_shares import Place, StoredTicket

TICKET = Ticket(tag=5, vcpus=0.5, weight=2.0, expected=7, charge=8, lent=1)


def stored(number: int, place: Place = Place.EXACT, *, tag: int = 5) -> StoredTicket:
    return StoredTicket(
        container_uuid=f"c{number}",
        level=1,
        share="s",
        created=number,
        state=place,
        ticket=replace(TICKET, tag=tag),
    )


async def test_an_account_is_stored_and_replaced(database: Database) -> None:
    one = ShareAccount(weight=2.5, finish=1 << 60, credit=2, used=3, changed_at=4, expected=5)
    async with database.writing() as tx:
        assert await fair_shares.account(tx, 1, "s") is None
        assert await fair_shares.clock(tx, 1) is None
        await fair_shares.put_account(tx, 1, "s", one, reached=9)
        await fair_shares.put_account(tx, 1, "s", replace(one, used=6), reached=10)
        await fair_shares.put_account(tx, 1, "t", one, reached=7)
        await fair_shares.put_account(tx, 2, "s", one, reached=70)
    async with database.reading() as tx:
        assert await fair_shares.account(tx, 1, "s") == (replace(one, used=6), 10)
        assert await fair_shares.clock(tx, 1) == 10
        found = sorted((one.share, one.used) for one in await fair_shares.uses(tx))
        assert found == [("s", 3), ("s", 6), ("t", 3)]


async def test_a_ticket_is_stored_replaced_and_removed(database: Database) -> None:
    one = stored(1)
    held = replace(one, state=Place.HELD, held_at=3, due=10)
    async with database.writing() as tx:
        await fair_shares.put_ticket(tx, one)
        assert await fair_shares.tickets(tx, ["c1", "c2"]) == {"c1": one}
        assert await fair_shares.waiting(tx, most=5) == ["c1"]
        await fair_shares.put_ticket(tx, held)
        assert await fair_shares.tickets(tx, ["c1"]) == {"c1": held}
        assert await fair_shares.overdue(tx, 9, most=5) == []
        assert await fair_shares.overdue(tx, 10, most=5) == [held]
        assert await fair_shares.counts(tx) == {"s": (0, 1)}
        await fair_shares.remove_ticket(tx, "c1")
        assert await fair_shares.tickets(tx, ["c1"]) == {}


async def test_the_oldest_parked_ones_and_the_exact_ones_before_them(database: Database) -> None:
    async with database.writing() as tx:
        for number in (3, 1, 2):
            await fair_shares.put_ticket(tx, stored(number, Place.PARKED))
        for number in range(10, 14):
            await fair_shares.put_ticket(tx, stored(number, tag=number))
        found = await fair_shares.parked(tx, 1, "s", most=2)
        assert [one.container_uuid for one in found] == ["c1", "c2"]
        assert await fair_shares.parked(tx, 1, "t", most=2) == []
        found = await fair_shares.exact(tx, 1, "s", since=12)
        assert [one.container_uuid for one in found] == ["c12", "c13"]
        assert len(await fair_shares.exact(tx, 1, "s", since=0)) == 4


async def test_a_share_that_was_passed_over_is_found(database: Database) -> None:
    async with database.writing() as tx:
        account = ShareAccount(finish=10)
        await fair_shares.put_account(tx, 1, "s", account, reached=0)
        await fair_shares.put_account(tx, 1, "idle", account, reached=0)
        assert await fair_shares.passed_over(tx, 1, clock=10) is None
        await fair_shares.put_ticket(tx, stored(1, Place.PARKED))
        assert await fair_shares.passed_over(tx, 1, clock=9) is None
        assert await fair_shares.passed_over(tx, 1, clock=10) == "s"


async def test_what_nobody_used_for_long_is_forgotten_but_no_clock(database: Database) -> None:
    async with database.writing() as tx:
        for share, seen, reached in (("old", 1, 5), ("clock", 1, 9), ("new", 3, 5), ("s", 1, 5)):
            await fair_shares.put_account(
                tx, 1, share, ShareAccount(changed_at=seen), reached=reached
            )
        await fair_shares.put_ticket(tx, stored(1))
        await fair_shares.forget(tx, seen_before=2)
        assert {one.share for one in await fair_shares.uses(tx)} == {"clock", "new", "s"}
