"""What fair share costs with 100,000 requests of 200 users that wait: the same queue with it and
without, measured in turns, as `bench.quotas` does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure
from bench.quotas import MOST_SHARE, fill, in_turns, live, made_folder, plan_first, share
from lading.core.policy.fair_share import (
    WINDOW,
    ShareAccount,
    admit,
    parked_priority,
    priority_at,
)
from lading.core.quantities import parse_time
from lading.testing.world import world

_LEVEL: Final = 1
# Milliseconds: times that were learned differ from user to user.
_SHORTEST: Final = 1_000
_LONGER: Final = 37


def measure(*, waiting: int, rounds: int) -> list[Figure]:
    """The figures with so many requests that wait."""
    return asyncio.run(_measure(waiting, rounds))


async def _measure(waiting: int, rounds: int) -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        plain = await stack.enter_async_context(world(made_folder(folder / "plain")))
        fair = await stack.enter_async_context(
            world(made_folder(folder / "fair"), Containers={"FairShare": {"Enabled": True}})
        )
        for one in (plain, fair):
            await fill(one, waiting)
        await asyncio.to_thread(_give_tickets, fair.root / "db.sqlite")
        planned = await in_turns(plan_first, plain, fair, rounds)
        lived = await in_turns(live, plain, fair, rounds)
    users = f"{waiting:,} waiting of 200 users"
    return [
        share(f"plan with fair share, share of without, {users}", planned, MOST_SHARE),
        share(f"commit, lock, run and end with fair share, share of without, {users}", lived, None),
    ]


def _give_tickets(path: Path) -> None:
    """Give the copies in a database the tickets that they would have got from the server."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT c.uuid, r.owner_uuid, r.created_at FROM containers c"
        " JOIN container_requests r ON r.container_uuid = c.uuid"
        " WHERE c.state = 'Queued' AND c.uuid NOT IN (SELECT container_uuid FROM fair_tickets)"
        " ORDER BY r.created_at"
    ).fetchall()
    queues: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for uuid, owner, created in rows:
        queues[owner].append((uuid, round(parse_time(created).timestamp() * 1000)))
    tickets: list[tuple[Any, ...]] = []
    for user, (owner, queue) in enumerate(queues.items()):
        expected = _SHORTEST + user * _LONGER
        where = "WHERE level = ? AND share = ?"
        ((finish,),) = connection.execute(
            f"SELECT finish FROM fair_accounts {where}",
            (_LEVEL, owner),
        )
        account = ShareAccount(finish=finish)
        for number, (uuid, created) in enumerate(queue):
            place, tag, charge = "parked", 0, 0
            value = parked_priority(_LEVEL, created)
            # The template, which the server has, is the first of the window.
            if number < WINDOW - 1:
                account, ticket = admit(account, vcpus=1.0, expected=expected)
                place, tag, charge = "exact", ticket.tag, ticket.charge
                value = priority_at(_LEVEL, tag)
            tickets.append(
                (uuid, _LEVEL, owner, created, place, tag, 1.0, 1.0, expected, charge, 0, 0, None)
            )
            connection.execute("UPDATE containers SET priority = ? WHERE uuid = ?", (value, uuid))
        connection.execute(
            f"UPDATE fair_accounts SET finish = ? {where}",
            (account.finish, _LEVEL, owner),
        )
    marks = ", ".join("?" for _ in tickets[0])
    connection.executemany(f"INSERT INTO fair_tickets VALUES ({marks})", tickets)
    connection.commit()
    connection.execute("ANALYZE")
    connection.close()
