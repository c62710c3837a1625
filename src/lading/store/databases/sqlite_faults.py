"""Errors of SQLite as errors of `core.errors`: one line with the cause, the file and the remedy."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Final

from lading.core.errors import Corrupt, Full, Invalid, LadingError, Unavailable

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
# Primary result codes (sqlite.org/rescode.html).
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TAKEN: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(path: Path, error: Exception) -> LadingError:
    """The error for a failure of the database or of its disk."""
    text = " ".join(str(error).split())
    if isinstance(error, OverflowError):
        return Invalid(f"a number is too large: {text}")
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a text is not Unicode: it has half of a surrogate pair")
    if isinstance(error, sqlite3.IntegrityError):
        return Invalid(f"duplicate key value violates unique constraint: {text}")
    if isinstance(error, OSError):
        if error.errno in _NO_ROOM:
            return _full(path, text)
        return Unavailable(f"{path}: cannot be made durable: {text}; see to the disk")
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return _full(path, text)
    if code in _DAMAGED:
        return Corrupt(
            f"{path}: is damaged ({text}); stop 'lading up' and restore it from a backup"
        )
    if code in _TAKEN:
        return Unavailable(
            f"{path}: another program holds it ({text}); end that program, then try again"
        )
    if code == sqlite3.SQLITE_IOERR:
        return Unavailable(
            f"{path}: cannot be read or written ({text}); see to the disk, then try again"
        )
    return Unavailable(f"the database cannot do that now: {text}")


def cannot_open(path: Path, error: Exception) -> LadingError:
    """The error for a file that cannot be opened as the database; shown when the server starts."""
    code = _code(error)
    if (
        code in _TAKEN
        or code == sqlite3.SQLITE_FULL
        or (isinstance(error, OSError) and error.errno in _NO_ROOM)
    ):
        return translate(path, error)
    text = " ".join(str(error).split())
    # Shown when the server starts: mostly a wrong path or owner.
    remedy = "restore it from a backup" if code in _DAMAGED else "check its owner and mode"
    return Invalid(
        f"{path}: cannot be used as a database: {text}; {remedy}, or choose another --data"
    )


def _full(path: Path, text: str) -> Full:
    return Full(f"{path}: no room to store records ({text}); free some space on its disk")


def _code(error: Exception) -> int:
    """SQLite's primary result code, 0 when there is none."""
    # The low byte is the primary code; the rest makes it an extended code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
