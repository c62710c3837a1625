"""Snapshots of a SQLite file in use: a copy of one committed state, and its check."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from lading.core.errors import Corrupt, Unavailable
from lading.store.databases.sqlite_faults import translate

# Pages copied between two calls of `progress`: 8 MiB with pages of 4 KiB.
_PAGES: Final = 2048
# Seconds that the copy waits for a lock.
_PATIENCE: Final = 30.0


def copy_database(source: Path, target: Path, *, progress: Callable[[int, int], None]) -> None:
    """Copy the committed state to `target`, a new file; `progress(done, total)` counts bytes.

    Raises Unavailable, Full or Corrupt as the database does.
    """
    if not source.exists():
        raise Unavailable(f"{source}: no database here; is this the right --data?")
    try:
        with closing(_open(source)) as reader, closing(sqlite3.connect(target)) as copy:
            size = reader.execute("PRAGMA page_size").fetchone()[0]
            # One read transaction around the copy: otherwise each change by another process would
            # restart it.
            reader.execute("BEGIN")
            # BEGIN alone takes no snapshot; the first read does.
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            reader.backup(
                copy,
                pages=_PAGES,
                progress=lambda _, left, total: progress((total - left) * size, total * size),
            )
            reader.execute("ROLLBACK")
            # Leases of dispatchers are not records: the copy is served with other dispatchers.
            # Databases older than this table do not have it.
            with suppress(sqlite3.OperationalError):
                copy.execute("DELETE FROM dispatcher_leases")
                copy.commit()
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode = delete")
    except sqlite3.Error as error:
        raise translate(source, error) from error


def check_database(path: Path) -> None:
    """Check the whole file. Raises Corrupt when the check fails."""
    try:
        with closing(_open(path)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    except sqlite3.Error as error:
        raise Corrupt(f"{path}: not a sound database ({error})") from error
    if found != ["ok"]:
        raise Corrupt(f"{path}: not a sound database ({found[0]})")


def manifests(path: Path) -> Iterator[str]:
    """The manifests of all collections in a file."""
    with closing(_open(path)) as connection:
        for (text,) in connection.execute("SELECT manifest_text FROM collections"):
            yield text or ""


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_PATIENCE
    )
