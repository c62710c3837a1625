"""SQLite in memory for one writer at a time: no file, no threads, no waiting for a disk.

It implements `lading.store.database.Database`, so that the real handlers run on it inside the
simulated loop. A database is made as a copy of a prepared one (`image`) in less than a millisecond.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lading.core.errors import Conflict, LadingError
from lading.store import log_rows
from lading.store.database import Deferred, Dialect, Row, Value
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDialect, insert_rows
from lading.store.databases.sqlite_faults import translate
from lading.store.databases.sqlite_reading import bounded

_NAME: Final = Path("memory")


class MemoryTransaction:
    """Statements on the one connection."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal) -> None:
        self.connection = connection
        self.dialect: Dialect = SqliteDialect()
        self.seal = seal
        self.callbacks: list[Callable[[], None]] = []

    async def fetch(
        self,
        sql: str,
        values: Sequence[Value] = (),
        *,
        most: int = 0,
        wide: Sequence[str] = (),
    ) -> list[Row]:
        """All rows of a query."""
        try:
            return bounded(self.connection.execute(sql, values), most)
        except sqlite3.Error as error:
            raise translate(_NAME, error) from error

    async def execute(
        self,
        sql: str,
        values: Sequence[Value] = (),
        *,
        is_long: bool = False,
    ) -> int:
        """Carry out a change."""
        try:
            return self.connection.execute(sql, values).rowcount
        except sqlite3.Error as error:
            raise translate(_NAME, error) from error

    async def insert_all(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]
    ) -> int:
        """Store many rows."""
        try:
            return insert_rows(self.connection, table, columns, rows)
        except sqlite3.Error as error:
            raise translate(_NAME, error) from error

    async def defer(self, change: Deferred) -> int:
        """Carry out a change at once."""
        try:
            cursor = self.connection.execute(change.sql, change.values)
        except sqlite3.Error as error:
            raise translate(_NAME, error) from error
        if change.missed and not cursor.rowcount:
            raise Conflict(change.missed)
        return cursor.lastrowid or 0

    def announce(self) -> None:
        """Nobody else uses this database."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` once this is committed."""
        self.callbacks.append(action)


class MemoryDatabase:
    """Implements `Database`; `image` is what `dump` of another one gave."""

    shared = False
    short_logs_since = ""

    def __init__(self, *, seal: Seal, image: bytes = b"") -> None:
        self.dialect: Dialect = SqliteDialect()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        if image:
            self._connection.deserialize(image)
        self._connection.execute("PRAGMA case_sensitive_like = on")
        self._connection.create_function(log_rows.FUNCTION, -1, log_rows.sqlite_function())
        self._seal = seal

    @property
    def fault(self) -> LadingError | None:
        """None: there is no disk."""
        return None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[MemoryTransaction]:
        """Reads see what is committed, as nobody writes meanwhile."""
        yield MemoryTransaction(self._connection, self._seal)

    @asynccontextmanager
    async def writing(self, *, aside: bool = False) -> AsyncIterator[MemoryTransaction]:
        """The only writer; nothing is changed when the block raises."""
        self._connection.execute("BEGIN")
        made = MemoryTransaction(self._connection, self._seal)
        try:
            yield made
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        for action in made.callbacks:
            action()

    async def announcements(self) -> AsyncGenerator[None]:
        """None: nobody else uses this database."""
        nobody: tuple[None, ...] = ()
        for one in nobody:
            yield one

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """What is committed, for a comparison."""
        return self._connection.execute(sql, values).fetchall()

    def dump(self) -> bytes:
        """An image of all that is stored."""
        return self._connection.serialize()

    async def close(self) -> None:
        """Drop everything."""
        self._connection.close()
