"""Group commit: transactions of concurrent writers share one commit, and changes of one block share
one statement.

A commit costs more than its statements, so concurrent writers share one. Their blocks run one after
another, and no writer is answered before the commit is on disk. SQLite rolls a failed block back
alone. With PostgreSQL the other writers of the group get `TransactionInterrupted` and retry.

Placeholders `?` rewritten to `$1`, `$2`... for PostgreSQL, with a cache of rewritten
statements.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lading.store.database import Deferred, TransactionInterrupted, Value

# The row of placeholders of an INSERT, which is repeated for further rows.
_ROW: Final = re.compile(r"(?<= VALUES )\([?, ]+\)")
# Statements that are cached; then the cache is emptied, as in steady use far fewer occur.
_REMEMBERED: Final = 512
# Quoted texts and names are matched first, so that a `?` in them is not a placeholder.
_PARTS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?")
# Statements that are cached; then the cache is emptied.
_LIMIT = 4096


@dataclass(slots=True)
class Group:
    """Writers whose blocks have ended and that wait for the shared commit."""

    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    callbacks: list[Callable[[], None]] = field(default_factory=list)
    announces: bool = False

    def join(self, callbacks: Iterable[Callable[[], None]]) -> asyncio.Future[None]:
        """Add a writer; it waits for the returned future."""
        self.callbacks += callbacks
        self.waiters.append(asyncio.get_running_loop().create_future())
        return self.waiters[-1]

    def committed(self) -> None:
        """Run the actions that were registered with `after_commit`."""
        for action in self.callbacks:
            action()

    def undone(self) -> None:
        """Roll back: a block of another writer failed, and with it the whole group."""
        settle(
            self.waiters,
            TransactionInterrupted("the change was undone with another one; try again"),
        )


def settle(waiters: Iterable[asyncio.Future[None]], error: Exception | None) -> None:
    """Resolve the futures of all waiting writers; cancelled ones are skipped."""
    for waiter in waiters:
        if not waiter.done():
            # A cancelled writer has left; its future is done.
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


@dataclass(frozen=True, slots=True)
class Batch:
    """One statement for several changes.

    `order` lists the positions of the changes in the order of their values. The statement returns,
    for each change in `checked`, the number of rows that it touched.
    """

    text: str
    order: tuple[int, ...]
    checked: tuple[int, ...]

    def values(self, changes: Sequence[Deferred]) -> list[Value]:
        """The values for the statement."""
        return [value for number in self.order for value in changes[number].values]


class Batches:
    """Writes and caches statements for batches of changes."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._number = placeholders.number
        self._known: dict[tuple[tuple[str, bool], ...], Batch] = {}

    def write(self, changes: Sequence[Deferred]) -> Batch:
        """The statement for a batch. Rows of one table share one INSERT and are numbered in their
        order.
        """
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
            # Other statements stay apart: the number makes the key unique.
            same = sql if sql.startswith("INSERT") and _ROW.search(sql) else f"{sql} -- {number}"
            inserts.setdefault(same, []).append(number)
        parts: list[str] = []
        counts: list[str] = []
        order: list[int] = []
        checked: list[int] = []
        for sql, numbers in inserts.items():
            # Values of equal statements are adjacent in the combined one, whatever the order of the
            # changes.
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
        # Parts of one WITH see the state before the statement, therefore two changes of one row are
        # sent apart (`Deferred.row`).
        text = f"WITH {', '.join(parts)} SELECT {', '.join(counts) or '1'}"
        return Batch(self._number(text), tuple(order), tuple(checked))


class Placeholders:
    """Cache of rewritten statements."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def number(self, sql: str) -> str:
        """The statement with numbered placeholders; quoted text is unchanged."""
        found = self._known.get(sql)
        if found is None:
            if len(self._known) >= _LIMIT:
                self._known.clear()
            found = self._known[sql] = _number(sql)
        return found


def _number(sql: str) -> str:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "?":
            return match[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(replace, sql)
