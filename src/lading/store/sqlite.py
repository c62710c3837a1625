"""SQLite: called in the loop, committed for all who write in one turn of it, made durable in a thread for many at once.

A statement takes microseconds and a hop to a thread tens of them (architecture notes: measured), so statements run in
the loop. What takes long is the disk: `synchronous=NORMAL` leaves it out of COMMIT, and after each COMMIT the writer
waits for an `fdatasync` of the write-ahead log that began later, one at a time, in a thread, shared by everybody who
committed meanwhile. So acknowledged means durable, and the loop never waits for a disk. Checkpoints have a thread too.
Each block of a shared commit but the first has a savepoint, so that one that fails is undone alone. What takes long to
be read has threads of its own (`sqlite_reading`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from lading.core.errors import Conflict, Corrupt, LadingError, Unavailable
from lading.core.schema import Field, Type
from lading.store.database import Deferred, Dialect, Row, Value
from lading.store.faults import cannot_open, translate
from lading.store.grouping import Group, settle
from lading.store.seal import Seal
from lading.store.sqlite_reading import QuickReader, SlowReaders, bounded
from lading.telemetry import event

CHECKPOINT_EVERY = 1000
"""Commits after which the log is moved into the file: pages that many of them change are then written once."""
BUSY_TIMEOUT = 5.0
_ASIDE = 10
"""How much nicer than the loop the thread is that moves the log."""
_FAULTS = (sqlite3.Error, OverflowError, UnicodeEncodeError)
_logger = logging.getLogger("lading.store")
_TYPES = {"number": "INTEGER", "integer": "INTEGER", "boolean": "INTEGER", "float": "REAL"}


class SqliteDialect:
    """SQL as SQLite says it."""

    preamble: Sequence[str] = ()
    columns: str = "SELECT name FROM pragma_table_info(?)"
    unmeasured: Sequence[str] = ()
    rechecked: Sequence[str] = ()

    def column_type(self, type: str) -> str:
        """Numbers are numbers, everything else text."""
        return _TYPES.get(type, "TEXT")

    def like(self, text: str, *, fold: bool) -> str:
        """Case counts unless `fold`; the connection sets case_sensitive_like."""
        return f"lower({text}) LIKE lower(?) ESCAPE '\\'" if fold else f"{text} LIKE ? ESCAPE '\\'"

    def each(self, document: str) -> str:
        """json_each."""
        return f"json_each({document})"

    def value(self, alias: str, *, number: bool) -> str:  # noqa: ARG002 - a value has its own type here
        """The one column of values."""
        return f"{alias}.value"

    def order(self, column: str, *, descending: bool = False) -> str:
        """SQLite's own order."""
        return f"{column} {'DESC' if descending else 'ASC'}"

    def members(self, fields: Sequence[Field]) -> str:
        """Made in SQLite: each value that is handed out costs more than what is done with it."""
        form = ",".join(f'"{one.name}":%s' for one in fields)
        return f"printf('{form}', {', '.join(map(_as_json, fields))})"


def _as_json(one: Field) -> str:
    if one.type is Type.BOOLEAN:
        return f"CASE {one.name} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE 'null' END"
    return f"coalesce({one.name}, 'null')" if one.nested or one.type is Type.INTEGER else f"json_quote({one.name})"


class _Transaction:
    """One connection with the callbacks of the transaction under way."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, seal: Seal, damaged: Callable[[Corrupt], None]
    ) -> None:
        self.path = path
        self._damaged = damaged
        self.connection = connection
        self.seal = seal
        self.callbacks: list[Callable[[], None]] = []

    async def fetch(self, sql: str, values: Sequence[Value] = (), *, most: int = 0) -> list[Row]:
        """All rows of a query."""
        try:
            return bounded(self.connection.execute(sql, values), most)
        except _FAULTS as error:
            raise self._translated(error) from error

    async def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Carry out a change."""
        try:
            return self.connection.execute(sql, values).rowcount
        except _FAULTS as error:
            raise self._translated(error) from error

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` once this is committed."""
        self.callbacks.append(action)

    async def defer(self, change: Deferred) -> int:
        """Carry it out at once: that costs no round trip here."""
        try:
            cursor = self.connection.execute(change.sql, change.values)
        except _FAULTS as error:
            raise self._translated(error) from error
        if change.missed and not cursor.rowcount:
            raise Conflict(change.missed)
        return cursor.lastrowid or 0

    def announce(self) -> None:
        """Nobody else uses this database."""

    def _translated(self, error: Exception) -> LadingError:
        found = translate(self.path, error)
        if isinstance(found, Corrupt):
            self._damaged(found)
        return found


class _Reading(_Transaction):
    """Reads, wherever that disturbs least."""

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

    async def fetch(self, sql: str, values: Sequence[Value] = (), *, most: int = 0) -> list[Row]:
        """All rows of a query."""
        try:
            return await self._reader.fetch(sql, values, most)
        except _FAULTS as error:
            raise self._translated(error) from error


class SqliteDatabase:
    """A database in one file. Open it inside the loop that uses it."""

    shared = False

    def __init__(self, path: Path, *, seal: Seal) -> None:
        """Open or make the file. Raises Invalid when it cannot be used, Unavailable when another program holds it."""
        self.dialect: Dialect = SqliteDialect()
        self._path = path
        try:
            with ExitStack() as undo:
                writer, reader = _connect(path, undo), _connect(path, undo)
                writer.execute("PRAGMA user_version = 1")
                # What an earlier server left in the log moves to the file, and is synced, before anything is added.
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
                undo.callback(os.close, self._log)
                _sync_directory(path.parent)
                undo.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise cannot_open(path, error) from error
        self._slow = SlowReaders(partial(_connect_small, path))
        self._writer = _Transaction(path, writer, seal, self._note_damage)
        self._reader = _Reading(path, reader, seal, self._note_damage, self._slow)
        self._turn = asyncio.Lock()
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
        """Each statement reads what is committed when it starts."""
        yield self._reader

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[_Transaction]:
        """One writer at a time; durable when left."""
        async with self._turn:
            if self._failed is not None:
                raise self._failed
            writer = self._writer
            group = self._open_group()
            writer.callbacks = []
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
                self._undo_block(group)
                raise
            waiter = group.join(writer.callbacks)
            if len(group.waiters) == 1:
                # It has its turn after all who are ready to write now.
                self._committer = asyncio.get_running_loop().create_task(self._commit(group), name="sqlite commit")
        await waiter

    @property
    def fault(self) -> LadingError | None:
        """Set once the file was found damaged, or its log could not be synced."""
        return self._failed

    async def announcements(self) -> AsyncGenerator[None]:
        """None: nobody else uses this database."""
        nobody: tuple[None, ...] = ()
        for one in nobody:
            yield one

    async def close(self) -> None:
        """Finish what is under way and close the file."""
        for task in (self._committer, self._flusher, self._checkpoint):
            if task is not None:
                await task
        self._disk.shutdown()
        self._janitor.shutdown()
        os.close(self._log)
        self._slow.close()
        self._reader.connection.close()
        self._writer.connection.close()

    def _open_group(self) -> Group:
        if self._group is None:
            with _Translated(self._path):
                self._writer.connection.execute("BEGIN IMMEDIATE")
            self._group = Group()
        return self._group

    def _undo_block(self, group: Group) -> None:
        """Roll the block back. What went wrong first is what is told."""
        connection = self._writer.connection
        with suppress(sqlite3.Error):
            if group.waiters and connection.in_transaction:
                connection.execute("ROLLBACK TO block")
                connection.execute("RELEASE block")
                return
        # There is nothing else in it; or SQLite has given all of it up, as it does when the disk is full.
        self._group = None
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        group.undone()

    async def _commit(self, group: Group) -> None:
        # Nobody would be told sooner: until what was committed before is on disk, others may join.
        while self._group is group and self._syncing is not None and not self._syncing.done():
            await asyncio.wait((self._syncing,))
        async with self._turn:
            self._commit_now(group)

    def _commit_now(self, group: Group) -> None:
        """Commit, if that was not done yet; who waits is told once it is on disk."""
        if self._group is not group:
            return
        self._group = None
        connection = self._writer.connection
        try:
            with _Translated(self._path):
                connection.execute("COMMIT")
        except LadingError as error:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            settle(group.waiters, error)
            return
        group.committed()
        self._waiting += group.waiters
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self._flush(), name="sqlite flush")

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            served, self._waiting = self._waiting, []
            self._syncing = loop.run_in_executor(self._disk, os.fdatasync, self._log)
            try:
                await self._syncing
            except OSError as error:
                self._fail(served, error)
                continue
            settle(served, None)
            self._commits += len(served)
            if self._commits >= CHECKPOINT_EVERY and (self._checkpoint is None or self._checkpoint.done()):
                self._commits = 0
                self._checkpoint = loop.create_task(self._tidy(), name="sqlite checkpoint")

    def _fail(self, served: list[asyncio.Future[None]], error: OSError) -> None:
        # After a failed sync the kernel may drop the pages and call the next sync a success: nothing that follows in
        # this log could be promised any more.
        self._failed = Unavailable(
            f"{self._path}: its log could not be written to disk ({error.strerror}); make room or check the disk, "
            "then start the server again: until then nothing is changed"
        )
        settle(served, translate(self._path, error))

    def _note_damage(self, error: Corrupt) -> None:
        """Take no more changes: one that is made on damaged pages may spoil what is still sound."""
        if self._failed is None:
            self._failed = error
            event(_logger, "database damaged", error=error)

    async def _tidy(self) -> None:
        """Move the write-ahead log into the file: most of it aside, then what came meanwhile.

        The rest is moved while nobody writes, so that the log begins anew; that is little by then.
        """
        loop = asyncio.get_running_loop()
        try:
            for _ in range(2):
                await loop.run_in_executor(self._janitor, _checkpoint, self._path, "PASSIVE")
            async with self._turn:
                if self._group is not None:
                    self._commit_now(self._group)
                await loop.run_in_executor(self._disk, _checkpoint, self._path, "RESTART")
        except sqlite3.Error as error:
            # Nothing is lost: the log goes on growing, and the next one tries again.
            event(_logger, "checkpoint failed", error=translate(self._path, error))


def _connect_small(path: Path) -> sqlite3.Connection:
    """A connection that keeps few pages."""
    with ExitStack() as undo:
        made = _connect(path, undo)
        made.execute("PRAGMA cache_size = -4096")
        undo.pop_all()
        return made


def _connect(path: Path, undo: ExitStack) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=512, check_same_thread=False
    )
    undo.callback(connection.close)
    for pragma in (
        "journal_mode = wal",
        "synchronous = normal",
        "wal_autocheckpoint = 0",
        "case_sensitive_like = on",
        "cache_size = -65536",
        "temp_store = memory",
        "secure_delete = on",
        "foreign_keys = off",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _checkpoint(path: Path, mode: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
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
    """SQLite's errors as ours."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _FAULTS):
            raise translate(self._path, error) from error
