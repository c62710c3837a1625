"""Blocks that are committed together, and changes of one block that are sent together.

A commit costs more than the statements before it, so writers who wait for their turn at the same time share one: each
has its own block, one after another; nobody is told before all of it is on disk. A block that fails is undone alone
where the database can do that (SQLite); where it cannot (PostgreSQL), the others of its group are told to try again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lading.store.database import Deferred, Interrupted, Value
from lading.store.placeholders import Placeholders

_ROW: Final = re.compile(r"(?<= VALUES )\([?, ]+\)")
_REMEMBERED: Final = 512


@dataclass(slots=True)
class Group:
    """Those whose blocks are done and who wait for the commit."""

    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    callbacks: list[Callable[[], None]] = field(default_factory=list)
    announces: bool = False

    def join(self, callbacks: Iterable[Callable[[], None]]) -> asyncio.Future[None]:
        """One more; wait for what is returned."""
        self.callbacks += callbacks
        self.waiters.append(asyncio.get_running_loop().create_future())
        return self.waiters[-1]

    def committed(self) -> None:
        """Do what was to be done after the commit."""
        for action in self.callbacks:
            action()

    def undone(self) -> None:
        """Somebody else's block failed, and all of the group was rolled back."""
        settle(self.waiters, Interrupted("the change was undone with another one; try again"))


def settle(waiters: Iterable[asyncio.Future[None]], error: Exception | None) -> None:
    """Tell all who wait how it ended; some may have left."""
    for waiter in waiters:
        if not waiter.done():
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


@dataclass(frozen=True, slots=True)
class Batch:
    """One statement for several changes.

    `order` are the positions of the changes in the order in which their values are taken; the statement answers, for
    each of `checked`, how many rows that change touched.
    """

    text: str
    order: tuple[int, ...]
    checked: tuple[int, ...]

    def values(self, changes: Sequence[Deferred]) -> list[Value]:
        """The values for the statement."""
        return [value for number in self.order for value in changes[number].values]


class Batches:
    """Writes statements for changes that are sent together; remembers those that it wrote, for they recur."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._number = placeholders.number
        self._known: dict[tuple[tuple[str, bool], ...], Batch] = {}

    def write(self, changes: Sequence[Deferred]) -> Batch:
        """The statement. Rows for one table go into one INSERT, in their order, so that they are numbered in it."""
        key = tuple((one.sql, bool(one.missed)) for one in changes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._write(key)
        return found

    def _write(self, key: Sequence[tuple[str, bool]]) -> Batch:
        inserts: dict[str, list[int]] = {}
        for number, (sql, _) in enumerate(key):
            same = sql if sql.startswith("INSERT") and _ROW.search(sql) else f"{sql} -- {number}"
            inserts.setdefault(same, []).append(number)
        parts: list[str] = []
        counts: list[str] = []
        order: list[int] = []
        checked: list[int] = []
        for sql, numbers in inserts.items():
            order += numbers
            text, watched = key[numbers[0]]
            name = f"part{len(parts)}"
            if row := _ROW.search(sql):
                text = f"{text[: row.end()]}{f', {row[0]}' * (len(numbers) - 1)}{text[row.end() :]}"
            if watched:
                checked += numbers
                counts.append(f"(SELECT count(*) FROM {name})")  # noqa: S608 - a name of ours
                text += " RETURNING 1"
            parts.append(f"{name} AS ({text})")
        text = f"WITH {', '.join(parts)} SELECT {', '.join(counts) or '1'}"
        return Batch(self._number(text), tuple(order), tuple(checked))
