"""What SQLite and the disk say, in our words."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from lading.core.errors import Corrupt, Full, Invalid, LadingError, Unavailable
from lading.store.databases.sqlite_faults import cannot_open, translate

FILE = Path("/data/db.sqlite")


def fault(code: int, text: str = "says SQLite\nat length") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (fault(sqlite3.SQLITE_FULL), Full, "free some space"),
        (OSError(errno.ENOSPC, "No space left on device"), Full, "free some space"),
        (OSError(errno.EDQUOT, "Quota exceeded"), Full, "free some space"),
        (OSError(errno.EIO, "Input/output error"), Unavailable, "see to the disk"),
        (fault(sqlite3.SQLITE_IOERR_FSYNC), Unavailable, "see to the disk"),
        (fault(sqlite3.SQLITE_CORRUPT), Corrupt, "restore it from a backup"),
        (fault(sqlite3.SQLITE_BUSY_SNAPSHOT), Unavailable, "another program holds it"),
        (
            fault(sqlite3.SQLITE_ERROR, "no such column: full_name"),
            Unavailable,
            "cannot do that now",
        ),
        (sqlite3.IntegrityError("links.uuid"), Invalid, "duplicate key"),
        (OverflowError("too large"), Invalid, "too large"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), Invalid, "not Unicode"),
    ],
)
def test_while_it_serves(error: Exception, kind: type[LadingError], says: str) -> None:
    found = translate(FILE, error)
    assert type(found) is kind
    assert says in found.message
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (fault(sqlite3.SQLITE_BUSY), Unavailable, "end that program"),
        (fault(sqlite3.SQLITE_FULL), Full, "free some space"),
        (OSError(errno.ENOSPC, "No space left on device"), Full, "free some space"),
        (fault(sqlite3.SQLITE_NOTADB), Invalid, "restore it from a backup"),
        (PermissionError(errno.EACCES, "Permission denied"), Invalid, "owner and mode"),
    ],
)
def test_at_the_start(error: Exception, kind: type[LadingError], says: str) -> None:
    found = cannot_open(FILE, error)
    assert type(found) is kind
    assert says in found.message
    assert str(FILE) in found.message
