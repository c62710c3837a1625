"""SQLite: statements run in the event loop, commits are shared, and syncs run in a thread.

Writes: a statement takes microseconds and a switch to a thread takes tens of microseconds, so
statements run in the loop; changes of many rows run in a thread, so that others read meanwhile. The
disk is slow: with `synchronous=NORMAL` COMMIT does not sync, and the writer then waits for an
`fdatasync` of the write-ahead log that began after its COMMIT. Syncs run one at a time in a thread,
each for all commits before it. So an acknowledged transaction is durable, and the loop never waits
for a disk. Checkpoints run in a thread. Each block of a shared commit except the first has a
savepoint, so that a failed block is rolled back alone.

Reads: a look-up runs in the loop. A search without an index or the count of a million rows would
block the loop: such a query is interrupted after `PATIENCE` and run again in one of a few threads,
each with its own connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from lading.core.errors import Conflict, Corrupt, LadingError, Unavailable
from lading.core.records.schema import Field, Type
from lading.process.telemetry import event
from lading.store import log_rows
from lading.store.database import Deferred, Dialect, Group, Row, Value, settle
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite_faults import cannot_open, translate
from lading.store.databases.sqlite_reading import QuickReader, SlowReaders, bounded
from lading.store.databases.write_turn import WriteTurn

CHECKPOINT_EVERY = 1000
"""Commits between two checkpoints: a page that many commits change is written once."""
# Seconds that SQLite waits for a lock of another process.
BUSY_TIMEOUT = 5.0
CACHE_SIZE = 64 << 20
"""Bytes for pages of one connection: the records of some 20,000 containers, which the lists of a
busy server read again and again.
"""
# For the connections of slow queries, which read most pages once.
_SMALL_CACHE = 4 << 20
# Increase of the nice value for the checkpoint thread.
_ASIDE = 10
_FAULTS = (sqlite3.Error, OverflowError, UnicodeEncodeError)
_logger = logging.getLogger("lading.store")
_TYPES = {"number": "INTEGER", "integer": "INTEGER", "boolean": "INTEGER", "float": "REAL"}
# Rows of one INSERT. Each return from a statement waits for the interpreter, which a thread shares
# with the loop; a statement with more rows takes long to prepare.
_ROWS = 50


class SqliteDialect:
    """The SQL dialect of SQLite."""

    preamble: Sequence[str] = ()
    columns: str = "SELECT name FROM pragma_table_info(?)"
    among: str = "{} IN (SELECT value FROM json_each(?))"
    unmeasured: Sequence[str] = ()
    rechecked: Sequence[str] = ()
    # The rows of one object are in the order of their numbers in its index.
    number_apart: str = "{}.id"
    # SQLite takes sorting all rows for cheap when it knows that few are wanted.
    literal_limits: bool = False

    def column_type(self, type: str) -> str:
        """Column type: a number type for numbers, else TEXT."""
        return _TYPES.get(type, "TEXT")

    def like(self, expression: str, *, fold: bool) -> str:
        """Case-sensitive unless `fold`; the connection sets case_sensitive_like."""
        return (
            f"lower({expression}) LIKE lower(?) ESCAPE '\\'"
            if fold
            else f"{expression} LIKE ? ESCAPE '\\'"
        )

    def each(self, document: str) -> str:
        """SQL table function json_each."""
        return f"json_each({document})"

    def value(
        self,
        alias: str,
        *,
        number: bool,  # noqa: ARG002 - SQLite values carry their type
    ) -> str:
        """The value column of json_each."""
        return f"{alias}.value"

    def order(self, column: str, *, descending: bool = False) -> str:
        """SQLite's default order."""
        return f"{column} {'DESC' if descending else 'ASC'}"

    def members(self, fields: Sequence[Field]) -> str:
        """Render in SQLite, since passing each value to Python costs more than rendering it."""
        form = ",".join(f'"{field.name}":%s' for field in fields)
        # Column values are escaped by json_quote, names are constants of the record types.
        return f"printf('{form}', {', '.join(map(_as_json, fields))})"


def _as_json(field: Field) -> str:
    if field.type is Type.BOOLEAN:
        return f"CASE {field.name} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE 'null' END"
    return (
        f"coalesce({field.name}, 'null')"
        if field.nested or field.type is Type.INTEGER
        else f"json_quote({field.name})"
    )


def insert_rows(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Value]],
) -> int:
    """Store new rows by few statements; the row number of the last one."""
    last = 0
    marks = f"({', '.join('?' * len(columns))})"
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        sql = (
            f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - names are constants
            f" VALUES {', '.join([marks] * len(some))}"
        )
        last = connection.execute(sql, [value for row in some for value in row]).lastrowid or 0
    return last


class _Transaction:
    """One connection and the callbacks of its open transaction."""

    dialect: Dialect = SqliteDialect()

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        seal: Seal,
        damaged: Callable[[Corrupt], None],
        threads: Executor | None = None,
    ) -> None:
        self.path = path
        self._damaged = damaged
        self._threads = threads
        self.connection = connection
        self.seal = seal
        self.callbacks: list[Callable[[], None]] = []

    async def fetch(
        self,
        sql: str,
        values: Sequence[Value] = (),
        *,
        most: int = 0,
        wide: Sequence[str] = (),  # noqa: ARG002 - rows are read one by one anyway
    ) -> list[Row]:
        """All rows of a query."""
        try:
            return bounded(self.connection.execute(sql, values), most)
        except _FAULTS as error:
            raise self._translated(error) from error

    async def execute(
        self, sql: str, values: Sequence[Value] = (), *, is_long: bool = False
    ) -> int:
        """Carry out a change; a long one in a thread."""

        def execute() -> int:
            return self.connection.execute(sql, values).rowcount

        try:
            return await self._in_thread(execute) if is_long else execute()
        except _FAULTS as error:
            raise self._translated(error) from error

    async def insert_all(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]
    ) -> int:
        """Store rows in a thread. Numbers of rows follow one another: there is one writer."""
        try:
            return await self._in_thread(
                partial(insert_rows, self.connection, table, columns, rows)
            )
        except _FAULTS as error:
            raise self._translated(error) from error

    async def _in_thread(self, work: Callable[[], int]) -> int:
        """Work with the connection, whose statements let the loop go on while they run."""
        doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            # Shielded: the thread uses the connection until it has ended.
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            with suppress(*_FAULTS):
                await doing
            raise

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` after the commit."""
        self.callbacks.append(action)

    async def defer(self, change: Deferred) -> int:
        """Execute the change at once; SQLite has no round trips."""
        try:
            cursor = self.connection.execute(change.sql, change.values)
        except _FAULTS as error:
            raise self._translated(error) from error
        if change.missed and not cursor.rowcount:
            raise Conflict(change.missed)
        return cursor.lastrowid or 0

    def announce(self) -> None:
        """Do nothing: no other process uses this database."""

    def _translated(self, error: Exception) -> LadingError:
        found = translate(self.path, error)
        if isinstance(found, Corrupt):
            self._damaged(found)
        return found


class _Reading(_Transaction):
    """Read transaction: short queries in the loop, long ones in a thread."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        seal: Seal,
        damaged: Callable[[Corrupt], None],
        slow: SlowReaders,
    ) -> None:
        super().__init__(path, connection, seal, damaged)
        self._reader = QuickReader(connection, slow)

    async def fetch(
        self,
        sql: str,
        values: Sequence[Value] = (),
        *,
        most: int = 0,
        wide: Sequence[str] = (),  # noqa: ARG002 - rows are read one by one anyway
    ) -> list[Row]:
        """All rows of a query."""
        try:
            return await self._reader.fetch(sql, values, most)
        except _FAULTS as error:
            raise self._translated(error) from error


class SqliteDatabase:
    """A database in one file. Construct it inside the event loop that uses it."""

    shared = False
    short_logs_since = ""

    def __init__(self, path: Path, *, seal: Seal, cache_size: int = CACHE_SIZE) -> None:
        """Open or create the file; `cache_size`: bytes for pages, of the writing and of the reading
        connection.

        Raises Invalid when it cannot be used, Unavailable when another program locks it.
        """
        self.dialect: Dialect = _Transaction.dialect
        self._path = path
        try:
            with ExitStack() as undo:
                writer, reader = (_connect(path, undo, cache_size) for _ in range(2))
                # Writing proves that the file is a writable database.
                writer.execute("PRAGMA user_version = 1")
                # Checkpoint and sync the log of an earlier server before the first write.
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
                undo.callback(os.close, self._log)
                # So that the names of new files survive a crash.
                _sync_directory(path.parent)
                undo.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise cannot_open(path, error) from error
        self._slow = SlowReaders(partial(_connect_small, path))
        # One thread each: syncs, checkpoints and long changes are each done one at a time.
        self._changes = ThreadPoolExecutor(1, "sqlite-write")
        self._writer = _Transaction(path, writer, seal, self._note_damage, self._changes)
        self._reader = _Reading(path, reader, seal, self._note_damage, self._slow)
        self._turn = WriteTurn()
        self._disk = ThreadPoolExecutor(1, "sqlite-sync")
        self._janitor = ThreadPoolExecutor(1, "sqlite-checkpoint", os.nice, (_ASIDE,))
        self._group: Group | None = None
        self._committer: asyncio.Task[None] | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._syncing: asyncio.Future[None] | None = None
        self._checkpoint: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._commits = 0
        self._failed: LadingError | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[_Transaction]:
        """Each statement sees the commits before its start."""
        # No transaction: outside of one each statement sees the latest commit.
        yield self._reader

    @asynccontextmanager
    async def writing(self, *, aside: bool = False) -> AsyncIterator[_Transaction]:
        """One writer at a time; durable when the block is left."""
        if aside and self._committer is not None and self._group and self._group.has_calls:
            # Once, so that work in the background goes on beside calls that never cease.
            await asyncio.wait((self._committer,))
        async with self._turn.held(aside=aside):
            if self._failed is not None:
                raise self._failed
            writer = self._writer
            group = self._open_group()
            writer.callbacks = []
            # The first block of a group needs no savepoint: it is the transaction.
            shared = bool(group.waiters)
            try:
                if shared:
                    with _Translated(self._path):
                        writer.connection.execute("SAVEPOINT block")
                yield writer
                if shared:
                    with _Translated(self._path):
                        writer.connection.execute("RELEASE block")
            except BaseException:
                # Cancelled, too: another block of the group must not commit half of this one.
                self._undo_block(group)
                raise
            waiter = group.join(writer.callbacks)
            group.has_calls |= not aside
            if len(group.waiters) == 1:
                # The commit runs after all writers that are ready now.
                self._committer = asyncio.get_running_loop().create_task(
                    self._commit(group), name="sqlite commit"
                )
        # Outside the lock, so that further writers can join.
        await waiter

    @property
    def fault(self) -> LadingError | None:
        """Set after damage of the file or a failed sync of its log."""
        return self._failed

    async def announcements(self) -> AsyncGenerator[None]:
        """Never yield: no other process uses this database."""
        nobody: tuple[None, ...] = ()
        for announcement in nobody:
            yield announcement

    async def close(self) -> None:
        """Finish open transactions and close the file."""
        # In this order: the committer starts the flusher, and that the checkpoint.
        for task in (self._committer, self._flusher, self._checkpoint):
            if task is not None:
                await task
        self._changes.shutdown()
        self._disk.shutdown()
        self._janitor.shutdown()
        os.close(self._log)
        self._slow.close()
        self._reader.connection.close()
        self._writer.connection.close()

    def _open_group(self) -> Group:
        if self._group is None:
            with _Translated(self._path):
                # IMMEDIATE takes the write lock at once, not at the first change, when it could
                # fail.
                self._writer.connection.execute("BEGIN IMMEDIATE")
            self._group = Group()
        return self._group

    def _undo_block(self, group: Group) -> None:
        """Roll the block back; the first error is the one raised."""
        connection = self._writer.connection
        # SQLite may have rolled back by itself, as on a full disk.
        with suppress(sqlite3.Error):
            if group.waiters and connection.in_transaction:
                connection.execute("ROLLBACK TO block")
                connection.execute("RELEASE block")
                return
        # The block is the only one of the group, or SQLite has rolled back the whole transaction
        # (disk full).
        self._group = None
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        group.undone()

    async def _commit(self, group: Group) -> None:
        # Committing now would not answer anybody sooner: until the running sync ends, further
        # writers may join.
        # Not under the lock: writers join meanwhile.
        while self._group is group and self._syncing is not None and not self._syncing.done():
            await asyncio.wait((self._syncing,))
        async with self._turn.held():
            self._commit_now(group)

    def _commit_now(self, group: Group) -> None:
        """Commit unless done; waiting writers are answered once the commit is on disk."""
        if self._group is not group:
            return
        self._group = None
        connection = self._writer.connection
        try:
            with _Translated(self._path):
                connection.execute("COMMIT")
        except LadingError as error:
            if connection.in_transaction:
                # The error of the commit is the one that the writers get.
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            settle(group.waiters, error)
            return
        # Now visible to readers; writers are answered after the sync.
        group.committed()
        self._waiting += group.waiters
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(
                self._flush(), name="sqlite flush"
            )

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        # Waiters that arrive during a sync need another one: their commit came after its start.
        while self._waiting:
            served, self._waiting = self._waiting, []
            self._syncing = loop.run_in_executor(self._disk, os.fdatasync, self._log)
            try:
                await self._syncing
            except OSError as error:
                self._fail(served, error)
                # Further waiters are failed or synced by the next round.
                continue
            settle(served, None)
            self._commits += len(served)
            if self._commits >= CHECKPOINT_EVERY and (
                self._checkpoint is None or self._checkpoint.done()
            ):
                self._commits = 0
                self._checkpoint = loop.create_task(self._tidy(), name="sqlite checkpoint")

    def _fail(self, served: list[asyncio.Future[None]], error: OSError) -> None:
        # After a failed sync the kernel may drop the pages and call the next sync a success: later
        # commits in this log could be lost.
        self._failed = Unavailable(
            f"{self._path}: its log could not be written to disk ({error.strerror});"
            " make room or check the disk, then start the server again:"
            " until then nothing is changed"
        )
        settle(served, translate(self._path, error))

    def _note_damage(self, error: Corrupt) -> None:
        """Refuse further changes: a change on damaged pages may destroy intact records."""
        if self._failed is None:
            self._failed = error
            event(_logger, "database damaged", error=error)

    async def _tidy(self) -> None:
        """Checkpoint: move the write-ahead log into the file.

        A thread moves most of it while writers go on. The small rest is moved without writers: the
        log restarts.
        """
        loop = asyncio.get_running_loop()
        try:
            # Twice: the second run moves changes written during the first one.
            for _ in range(2):
                await loop.run_in_executor(self._janitor, _checkpoint, self._path, "PASSIVE")
            # With the turn no writer appends, so that the log can restart from its beginning.
            async with self._turn.held():
                if self._group is not None:
                    self._commit_now(self._group)
                await loop.run_in_executor(self._disk, _checkpoint, self._path, "RESTART")
        except sqlite3.Error as error:
            # Nothing is lost: the log grows until the next checkpoint.
            event(_logger, "checkpoint failed", error=translate(self._path, error))


def _connect_small(path: Path) -> sqlite3.Connection:
    """A connection with a small page cache."""
    with ExitStack() as undo:
        made = _connect(path, undo, _SMALL_CACHE)
        undo.pop_all()
        return made


def _connect(path: Path, undo: ExitStack, cache_size: int) -> sqlite3.Connection:
    # isolation_level None: transactions are begun and ended explicitly.
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        cached_statements=512,
        check_same_thread=False,
    )
    undo.callback(connection.close)
    # wal: readers and one writer at a time. normal: COMMIT does not sync, see the module.
    # autocheckpoint 0: checkpoints run in a thread. cache_size: KiB if negative.
    # secure_delete: deleted tokens and secrets are overwritten.
    for pragma in (
        "journal_mode = wal",
        "synchronous = normal",
        "wal_autocheckpoint = 0",
        "case_sensitive_like = on",
        f"cache_size = -{cache_size >> 10}",
        "temp_store = memory",
        "secure_delete = on",
        "foreign_keys = off",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_function(
        log_rows.FUNCTION, -1, log_rows.sqlite_function(), deterministic=True
    )
    return connection


def _checkpoint(path: Path, mode: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # A connection of its own, as a checkpoint blocks its connection. busy_timeout:
        # milliseconds.
        connection.execute("PRAGMA synchronous = normal")
        connection.execute("PRAGMA busy_timeout = 100")
        connection.execute(f"PRAGMA wal_checkpoint({mode})")
    finally:
        connection.close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Translated:
    """Context manager that translates errors of SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Do nothing: SQLite needs no preparation."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _FAULTS):
            raise translate(self._path, error) from error
