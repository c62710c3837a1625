"""What dispatchers say about waiting containers, where several server processes have to give one answer."""

# ruff: noqa: S608 - names are written here, values go into placeholders

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from lading.core.delays import Said
from lading.store.database import Transaction, Value

TABLES = (
    "CREATE TABLE IF NOT EXISTS scheduling_statuses (container_uuid TEXT NOT NULL, dispatcher_uuid TEXT NOT NULL,"
    " reason TEXT NOT NULL, sentence TEXT NOT NULL, PRIMARY KEY (container_uuid, dispatcher_uuid))",
    "CREATE TABLE IF NOT EXISTS dispatchers (uuid TEXT PRIMARY KEY, reported_at TEXT NOT NULL)",
)
_BATCH = 100
_Row = TypeVar("_Row")


async def report(tx: Transaction, dispatcher_uuid: str, now: str) -> None:
    """A dispatcher is there."""
    await tx.execute(
        "INSERT INTO dispatchers (uuid, reported_at) VALUES (?, ?)"
        " ON CONFLICT (uuid) DO UPDATE SET reported_at = excluded.reported_at",
        (dispatcher_uuid, now),
    )


async def put(tx: Transaction, dispatcher_uuid: str, said: Mapping[str, Said]) -> None:
    """Remember what a dispatcher says, by container."""
    rows = [(uuid, dispatcher_uuid, one.reason, one.sentence) for uuid, one in said.items()]
    for batch in _batches(rows):
        values: list[Value] = [value for row in batch for value in row]
        marks = ", ".join("(?, ?, ?, ?)" for _ in batch)
        await tx.execute(
            f"INSERT INTO scheduling_statuses (container_uuid, dispatcher_uuid, reason, sentence) VALUES {marks}"
            " ON CONFLICT (container_uuid, dispatcher_uuid)"
            " DO UPDATE SET reason = excluded.reason, sentence = excluded.sentence",
            values,
        )


async def take_back(tx: Transaction, dispatcher_uuid: str, container_uuids: Iterable[str]) -> None:
    """Forget what a dispatcher said about these containers."""
    for batch in _batches(list(container_uuids)):
        marks = ", ".join("?" for _ in batch)
        await tx.execute(
            f"DELETE FROM scheduling_statuses WHERE dispatcher_uuid = ? AND container_uuid IN ({marks})",
            (dispatcher_uuid, *batch),
        )


async def forget(tx: Transaction, container_uuid: str) -> None:
    """Forget what all dispatchers said about a container."""
    await tx.execute("DELETE FROM scheduling_statuses WHERE container_uuid = ?", (container_uuid,))


async def about(tx: Transaction, container_uuid: str, *, since: str) -> list[Said]:
    """What the dispatchers that have reported since then say about a container."""
    rows = await tx.fetch(
        "SELECT s.reason, s.sentence FROM scheduling_statuses s JOIN dispatchers d ON d.uuid = s.dispatcher_uuid"
        " WHERE s.container_uuid = ? AND d.reported_at >= ? ORDER BY s.dispatcher_uuid",
        (container_uuid, since),
    )
    return [Said(str(reason), str(sentence)) for reason, sentence in rows]


async def last_report(tx: Transaction) -> str | None:
    """When any dispatcher last reported."""
    found = (await tx.fetch("SELECT max(reported_at) FROM dispatchers"))[0][0]
    return None if found is None else str(found)


def _batches(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[at : at + _BATCH] for at in range(0, len(rows), _BATCH))
