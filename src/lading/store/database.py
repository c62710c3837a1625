"""The seam to the database: transactions of a few statements, and what a dialect of SQL has to say.

Rules: reads see committed rows only; writers take turns; a `writing` block is applied whole or, on any exception, not
at all, and leaving it means the change is durable. Nothing but the database is awaited inside a block. Blocks of those
who write at the same time may be committed together; `Interrupted` says that one was undone with another, to be tried
again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lading.core.errors import LadingError, Unavailable
from lading.core.schema import Field
from lading.store.seal import Seal

Value: TypeAlias = str | int | float | bytes | None
"""What a column holds."""
Row: TypeAlias = tuple[Value, ...]
"""One row, in the order of the selected columns."""


class Interrupted(Unavailable):
    """The database gave the transaction up: nothing was changed, and it may be tried again at once."""


class Dialect(Protocol):
    """How one database says what SQL leaves open. Placeholders are `?` everywhere."""

    preamble: Sequence[str]
    """Statements, repeatable, that make what the others rely on."""
    unmeasured: Sequence[str]
    """Changes of a column of texts after which queries are not planned by the values that it has had."""
    rechecked: Sequence[str]
    """Statements after which nested values are checked as `preamble` has them checked in a new database."""
    columns: str
    """A query with one placeholder, a table's name, that gives the names of its columns."""

    def column_type(self, type: str) -> str:
        """The column type for a `core.schema.Type`, or for "number": an integer that the database counts up."""
        ...

    def like(self, text: str, *, fold: bool) -> str:
        """A condition that `text`, an expression, matches the pattern in the next placeholder."""
        ...

    def each(self, document: str) -> str:
        """The table of `key`, `fullkey` (`$[0]` for what is in a list), `type` and `value` of a JSON text.

        `type` is text, integer, real, true, false, null, object or array.
        """
        ...

    def value(self, alias: str, *, number: bool) -> str:
        """The value in a row of `each`, to be compared with a number or with a text."""
        ...

    def order(self, column: str, *, descending: bool = False) -> str:
        """A sort key: texts by their bytes, nulls before everything."""
        ...

    def members(self, fields: Sequence[Field]) -> str:
        """An expression for the members of a JSON object with some columns that hold no fractions, as text.

        "" where the values of the columns are had as quickly.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A change whose outcome nobody needs to know before the commit, so that it may be sent together with others.

    `row` names what it changes: two changes of one row are kept apart. `reads` is a table whose rows it goes by, ""
    for none. `missed`: what Conflict says if it touches no row.
    """

    sql: str
    values: Sequence[Value]
    row: str
    reads: str = ""
    missed: str = ""


def text_size(rows: Sequence[Row]) -> int:
    """Characters and bytes of the texts in some rows."""
    return sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))


def first_rows(rows: Sequence[Row], most: int, *, has_some: bool) -> list[Row]:
    """The first rows that together have at most so many bytes of text; one at least, unless there are some already."""
    found: list[Row] = []
    for row in rows:
        most -= text_size((row,))
        if most < 0 and (found or has_some):
            break
        found.append(row)
    return found


class Transaction(Protocol):
    """Statements that see, and leave, one state."""

    seal: Seal
    """What sealed columns are read and written with."""

    async def fetch(self, sql: str, values: Sequence[Value] = (), *, most: int = 0) -> list[Row]:
        """All rows of a query; with `most` the first of them that have so many bytes of text, one at least."""
        ...

    async def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Carry out a change; the number of rows that it touched.

        Raises Invalid when a unique constraint is violated.
        """
        ...

    async def defer(self, change: Deferred) -> int:
        """Carry out a change, before any statement that follows or at the end of the block at the latest.

        The number of the row that it inserted, 0 if that is not known yet. What it raises may be raised only then: the
        faults of `execute`, and Conflict.
        """
        ...

    def announce(self) -> None:
        """Tell every process that shares the database, once this is committed, that there are new log rows."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` once the transaction is committed, before others learn of it; never if it is rolled back."""
        ...


class Database(Protocol):
    """Where records are kept."""

    dialect: Dialect
    shared: bool
    """Whether other processes use it too, so that events have to be announced."""

    @property
    def fault(self) -> LadingError | None:
        """Why it takes no changes any more until it is opened anew; None while it does."""
        ...

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads."""
        ...

    def writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that changes; durable when it has been left. Raises Full when the disk is."""
        ...

    def announcements(self) -> AsyncGenerator[None]:
        """An item whenever log rows may have been announced since the one before; never ends while it is shared.

        Rows become visible in the order of their numbers, so reading on from the last number seen misses none.
        """
        ...

    async def close(self) -> None:
        """Let go of it; nothing may be under way."""
        ...
