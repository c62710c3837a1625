"""Reads of SQLite: short queries in the event loop, long ones in a few threads.

A query that takes longer than PATIENCE is interrupted, and run again in a thread with a connection
of its own, so that the loop goes on.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lading.store.database import Row, Value, first_rows, text_size

PATIENCE = 0.01
"""Seconds that one query may block the loop."""
# Rows fetched before their size is checked.
_BATCH = 20
# Instructions of SQLite between two checks of the clock: a page of a hundred takes about 26,000.
_STEPS = 50_000


def bounded(cursor: sqlite3.Cursor, most: int) -> list[Row]:
    """All rows; with `most`, the first rows up to that many bytes of text, at least one."""
    if not most:
        return cursor.fetchall()
    rows: list[Row] = []
    left = most
    while batch := cursor.fetchmany(_BATCH):
        # Most queries need a single batch.
        size = text_size(batch)
        if size > left:
            rows += first_rows(batch, left, has_some=bool(rows))
            break
        rows += batch
        left -= size
    # An unfinished statement would keep its read transaction open, and the log could not restart.
    cursor.close()
    return rows


class QuickReader:
    """Runs queries in the loop, and slow ones in `slow`."""

    def __init__(self, connection: sqlite3.Connection, slow: SlowReaders) -> None:
        self.connection = connection
        self._slow = slow
        self._until = 0.0
        # Called every _STEPS instructions; true interrupts the statement.
        connection.set_progress_handler(self._is_late, _STEPS)

    async def fetch(self, sql: str, values: Sequence[Value], most: int = 0) -> list[Row]:
        """The rows of a query; see `Transaction.fetch`."""
        self._until = time.perf_counter() + PATIENCE
        try:
            return bounded(self.connection.execute(sql, values), most)
        except sqlite3.OperationalError as error:
            # Interrupted by `_is_late`: the same query runs again in a thread.
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
        return await self._slow.fetch(sql, values, most)

    def _is_late(self) -> bool:
        return time.perf_counter() > self._until


class SlowReaders:
    """A few connections, each used by one thread at a time, opened on demand."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], size: int = 2) -> None:
        self._connect = connect
        self._room = asyncio.Semaphore(size)
        self._threads = ThreadPoolExecutor(size, "sqlite-read")
        self._idle: list[sqlite3.Connection] = []

    async def fetch(self, sql: str, values: Sequence[Value], most: int = 0) -> list[Row]:
        """The rows of a query; see `Transaction.fetch`. Cancellation interrupts the query."""
        loop, gone = asyncio.get_running_loop(), threading.Event()
        async with self._room:
            # Opened on demand: many servers never have a slow query.
            connection = self._idle.pop() if self._idle else self._connect()
            # Not interrupt(): that has no effect before the thread has begun.
            connection.set_progress_handler(gone.is_set, _STEPS)
            work = loop.run_in_executor(
                self._threads, lambda: bounded(connection.execute(sql, values), most)
            )
            try:
                # Shielded: the thread uses the connection until it has ended.
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                gone.set()
                # The interruption raises; the connection is free after that.
                with suppress(sqlite3.Error):
                    await work
                raise
            finally:
                self._idle.append(connection)

    def close(self) -> None:
        """Close the connections. The caller has waited for the end of all queries."""
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().close()
