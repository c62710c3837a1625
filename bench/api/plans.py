"""How the databases answer the questions that must not grow with the number of records: the plans
of the queries.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.api.places import Place
from bench.api.sample import IMAGE
from bench.api.templates import Recorder
from lading.api.resources.generic import narrowed
from lading.core.containers.recipe import ReuseKey
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_query
from lading.core.records.schema import JSON, RecordType
from lading.store import records
from lading.store.containers import reusable, waiting
from lading.store.database import Placeholders, Row, Transaction, Value

NOW: Final = "2026-06-01T00:00:00.000000000Z"
Question = Callable[[Transaction], Awaitable[object]]


class Heard(Recorder):
    """A transaction that remembers what it was asked."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx.seal)
        self._tx = tx
        self.asked: list[tuple[str, tuple[Value, ...]]] = []

    async def fetch(
        self,
        sql: str,
        values: Sequence[Value] = (),
        *,
        most: int = 0,
        wide: Sequence[str] = (),
    ) -> list[Row]:
        """Ask, and remember what."""
        self.asked.append((sql, tuple(values)))
        return await self._tx.fetch(sql, values, most=most, wide=wide)


def show(place: Place) -> None:
    """Print the plans."""
    number = Placeholders().number if place.server is not None else str
    for what, asked in asyncio.run(_ask(place)).items():
        for sql, values in asked:
            print(f"\n{place.name}: {what}\n  {_brief(sql)}")
            for line in place.explain(number(sql), values):
                print(f"    {line}")


async def _ask(place: Place) -> dict[str, list[tuple[str, tuple[Value, ...]]]]:
    database, found = await place.open(), {}
    for what, question in _questions(place).items():
        async with database.reading() as tx:
            heard = Heard(tx)
            await question(heard)
            found[what] = heard.asked[-1:]
    await database.close()
    return found


def _questions(place: Place) -> dict[str, Question]:
    site, dialect = place.site, place.dialect
    alice = Principal(user_uuid=site.alice, token_uuid="", token="")

    def page(kind: RecordType = REQUESTS, **params: JSON) -> Question:
        async def ask(tx: Transaction) -> None:
            query = check_query({"count": "none", **params}, kind, max_limit=1000)
            where = (*access.readable(kind, alice, now=NOW), *query.where)
            query = await narrowed(tx, kind, dataclasses.replace(query, where=where), alice)
            await records.search(tx, dialect, kind, query)

        return ask

    return {
        "candidates for reuse": lambda tx: reusable.candidates(
            tx, dialect, [ReuseKey("0" * 64, "0" * 64)], reader=site.alice, now=NOW
        ),
        "containers like a new one (why)": lambda tx: reusable.earlier(
            tx, dialect, NOW, IMAGE, access.readable(CONTAINERS, alice, now=NOW)
        ),
        "what waits ahead (why)": lambda tx: waiting.ahead(tx, dialect, 500, NOW, most=1000),
        "the first page of requests": page(),
        "requests by created_at": page(order=["created_at desc"]),
        "requests, keyset": page(
            order=["uuid asc"], filters=[["uuid", ">", site.uuid("xvhdp", "keyset")]]
        ),
        "requests of a project": page(
            order=["created_at desc"],
            filters=[["owner_uuid", "=", site.project(1)], ["state", "=", "Final"]],
        ),
        "Committed requests": page(
            order=["created_at desc"], filters=[["state", "=", "Committed"]]
        ),
    }


def _brief(sql: str) -> str:
    return sql if len(sql) < 500 else f"{sql[:60]} ... {sql[sql.index(' FROM ') :]}"[:700]
