"""The database seam: transactions, group commit, and differences of SQL dialects.

- Transactions: reads see committed rows only; writers take turns, calls before work in the
  background; a `writing` block is applied
  whole or, on any exception, not at all, and leaving it means the change is durable. Nothing but
  the database is awaited inside a block.
- Group commit (`Group`): a commit costs more than its statements, so concurrent writers share one.
  Their blocks run one after another, and no writer is answered before the commit is on disk. SQLite
  rolls a failed block back alone. With PostgreSQL the other writers of the group get
  `TransactionInterrupted`: their blocks were rolled back too, and they try again. Changes of one
  block may share one statement (`Batches`).
- `Placeholders` rewrites `?` to `$1`, `$2`... for PostgreSQL.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from lading.core.errors import LadingError, Unavailable
from lading.core.records.schema import Field
from lading.store.databases.seal import Seal

Value: TypeAlias = str | int | float | bytes | None
"""A value of a column."""
Row: TypeAlias = tuple[Value, ...]
"""One row, in the order of the selected columns."""


class TransactionInterrupted(Unavailable):
    """The database rolled the transaction back: nothing was changed, and the caller may retry at
    once.
    """


class Dialect(Protocol):
    """The SQL of one database where databases differ. Placeholders are always `?`."""

    preamble: Sequence[str]
    """Idempotent statements that create the functions which other statements use."""
    unmeasured: Sequence[str]
    """Statements that stop the planner from using statistics of a text column."""
    rechecked: Sequence[str]
    """Statements that give an existing table the same check of nested values as a new one."""
    among: str
    """Condition for `str.format` with a column: it is one of the texts of the JSON array in the
    next placeholder. The same statement serves any number of texts.
    """
    columns: str
    """A query with one placeholder, a table's name, that gives the names of its columns."""
    number_apart: str
    """Sort key for `str.format` with a table: the number of a row, without the index of numbers."""
    literal_limits: bool
    """Whether the planner needs the limit as a constant in order to walk along an index."""

    def column_type(self, type: str) -> str:
        """Column type for a `core.records.schema.Type`, or for "number", an auto-increment
        integer.
        """

    def like(self, expression: str, *, fold: bool) -> str:
        """SQL condition: `expression` matches the pattern in the next placeholder."""

    def each(self, document: str) -> str:
        """SQL table of `key`, `fullkey` (`$[0]` for elements of a list), `type` and `value` of a
        JSON text.

        `type` is text, integer, real, true, false, null, object or array.
        """

    def value(self, alias: str, *, number: bool) -> str:
        """SQL expression for the value column of `each`, for comparison with a number or a text."""

    def order(self, column: str, *, descending: bool = False) -> str:
        """SQL sort key: texts in byte order, nulls first."""

    def members(self, fields: Sequence[Field]) -> str:
        """SQL expression that renders columns as members of a JSON object; the columns hold no
        fractions.

        "" where reading the columns one by one is as fast.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A change whose outcome is not needed before the commit; it may be sent together with other
    changes.

    `row` identifies the changed row: two changes of one row are sent apart. `reads` is a table that
    the change reads, "" for none. `missed` is the message of Conflict if the change touches no row.
    """

    sql: str
    values: Sequence[Value]
    row: str
    reads: str = ""
    missed: str = ""


def text_size(rows: Sequence[Row]) -> int:
    """Total size of the texts in rows."""
    return sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))


def first_rows(rows: Sequence[Row], most: int, *, has_some: bool) -> list[Row]:
    """The longest prefix of rows with at most `most` bytes of text; at least one row unless
    `has_some`.
    """
    prefix: list[Row] = []
    for row in rows:
        most -= text_size((row,))
        # A page without rows would look like the end of the list.
        if most < 0 and (prefix or has_some):
            break
        prefix.append(row)
    return prefix


class Transaction(Protocol):
    """Statements on one consistent state."""

    dialect: Dialect
    """The SQL of the database."""
    seal: Seal
    """The seal that encrypts and decrypts sealed columns."""

    async def fetch(
        self, sql: str, values: Sequence[Value] = (), *, most: int = 0, wide: Sequence[str] = ()
    ) -> list[Row]:
        """All rows of a query; with `most`, the first rows up to that many bytes of text, at least
        one.

        `wide`: the columns of the result whose texts have no limit. A database may check the total
        of these columns before it sends the rows, and then counts no other column.
        """

    async def execute(
        self, sql: str, values: Sequence[Value] = (), *, is_long: bool = False
    ) -> int:
        """Execute a change; return the number of changed rows. `is_long`: it changes so many rows
        that others should be served meanwhile.

        Raises Invalid when a unique constraint is violated.
        """

    async def insert_all(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]
    ) -> int:
        """Store many rows, at least one, in their order; return the number of the last one, 0 if
        not known. Where it is known, the numbers of the rows follow one another.

        Raises Invalid when a unique constraint is violated.
        """

    async def defer(self, change: Deferred) -> int:
        """Execute a change before the next query that names its table, the next change that is not
        deferred, or the end of the block.

        Returns the number of the inserted row, 0 if not known yet. Errors of `execute` and Conflict
        may be raised only when the change is executed.
        """

    def announce(self) -> None:
        """After the commit, notify all processes that share the database of new log rows."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` after the commit, before notifications are sent; never after a rollback."""


class Database(Protocol):
    """A database with records."""

    dialect: Dialect
    shared: bool
    """Whether other processes use the database too, so that events must be announced."""
    short_logs_since: str
    """The time from which on new log rows are stored in the short form (`store.log_rows`)."""

    @property
    def fault(self) -> LadingError | None:
        """Reason why the database refuses changes until it is reopened, or None."""

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A read-only transaction."""

    def writing(self, *, aside: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """A read-write transaction, durable when the block is left. Raises Full when the disk is
        full.

        `aside`: work in the background, before which calls that wait in this process write
        (`store.databases.write_turn`).
        """

    def announcements(self) -> AsyncGenerator[None]:
        """Yield whenever new log rows may exist; endless while the database is shared.

        Rows become visible in the order of their numbers, so a reader that continues after its last
        number misses none.
        """

    async def close(self) -> None:
        """Close the database. No transaction may be open."""


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
    has_calls: bool = False
    """Whether a call waits for the commit, and not work in the background alone."""

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

    statement: str
    order: tuple[int, ...]
    checked: tuple[int, ...]

    def values(self, changes: Sequence[Deferred]) -> list[Value]:
        """The values for the statement."""
        return [value for number in self.order for value in changes[number].values]


class Batches:
    """Writes and caches statements for batches of changes."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._number = placeholders.number
        self._batches: dict[tuple[tuple[str, bool], ...], Batch] = {}

    def write(self, changes: Sequence[Deferred]) -> Batch:
        """The statement for a batch. Rows of one table share one INSERT and are numbered in their
        order.
        """
        key = tuple((change.sql, bool(change.missed)) for change in changes)
        batch = self._batches.get(key)
        if batch is None:
            if len(self._batches) >= _REMEMBERED:
                self._batches.clear()
            batch = self._batches[key] = self._write(key)
        return batch

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
            # Values of equal statements are adjacent in the combined one, independent of the order
            # of the changes.
            order += numbers
            statement, watched = key[numbers[0]]
            name = f"part{len(parts)}"
            if row := _ROW.search(sql):
                further = f", {row[0]}" * (len(numbers) - 1)
                statement = f"{statement[: row.end()]}{further}{statement[row.end() :]}"
            if watched:
                checked += numbers
                counts.append(f"(SELECT count(*) FROM {name})")  # noqa: S608 - a name of ours
                statement += " RETURNING 1"
            parts.append(f"{name} AS ({statement})")
        # Parts of one WITH see the state before the statement, therefore two changes of one row are
        # sent apart (`Deferred.row`).
        statement = f"WITH {', '.join(parts)} SELECT {', '.join(counts) or '1'}"
        return Batch(self._number(statement), tuple(order), tuple(checked))


class Placeholders:
    """Cache of rewritten statements."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self.statements: dict[str, str] = {}

    def number(self, sql: str) -> str:
        """The statement with numbered placeholders; quoted text is unchanged."""
        numbered = self.statements.get(sql)
        if numbered is None:
            if len(self.statements) >= self._limit:
                self.statements.clear()
            numbered = self.statements[sql] = _number(sql)
        return numbered


def _number(sql: str) -> str:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "?":
            return match[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(replace, sql)
