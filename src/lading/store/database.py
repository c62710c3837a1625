"""The seam to the database: transactions of a few statements, and what a dialect of SQL has to say.

Rules: reads see committed rows only; writers take turns; a `writing` block is applied whole or, on any exception, not
at all, and leaving it means the change is durable. Nothing but the database is awaited inside a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from lading.store.seal import Seal

Value: TypeAlias = str | int | float | bytes | None
"""What a column holds."""
Row: TypeAlias = tuple[Value, ...]
"""One row, in the order of the selected columns."""


class Dialect(Protocol):
    """How one database says what SQL leaves open. Placeholders are `?` everywhere."""

    def column_type(self, type: str) -> str:
        """The column type for a `core.schema.Type`."""
        ...

    def literal(self, value: object) -> str:
        """A JSON default as it is written in a table definition."""
        ...

    def like(self, text: str, *, fold: bool) -> str:
        """A condition that `text`, an expression, matches the pattern in the next placeholder."""
        ...

    def each(self, column: str) -> str:
        """The table of `key`, `value` and `type` of what a JSON column holds."""
        ...

    def columns(self) -> str:
        """A query with one placeholder, a table's name, that gives the names of its columns."""
        ...


class Transaction(Protocol):
    """Statements that see, and leave, one state."""

    seal: Seal
    """What sealed columns are read and written with."""

    async def fetch(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query."""
        ...

    async def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Carry out a change; the number of rows that it touched, or the id of the row inserted.

        Raises Invalid when a unique constraint is violated.
        """
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` once the transaction is committed, before others learn of it; never if it is rolled back."""
        ...


class Database(Protocol):
    """Where records are kept."""

    dialect: Dialect

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads."""
        ...

    def writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that changes; durable when it has been left. Raises Full when the disk is."""
        ...

    async def close(self) -> None:
        """Let go of it; nothing may be under way."""
        ...
