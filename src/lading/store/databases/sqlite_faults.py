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
    fault = " ".join(str(error).split())
    if isinstance(error, OverflowError):
        return Invalid(f"a number is too large: {fault}")
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a text is not Unicode: it has half of a surrogate pair")
    if isinstance(error, sqlite3.IntegrityError):
        return Invalid(f"duplicate key value violates unique constraint: {fault}")
    if isinstance(error, OSError):
        if error.errno in _NO_ROOM:
            return _full(path, fault)
        return Unavailable(f"{path}: cannot be made durable: {fault}; see to the disk")
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return _full(path, fault)
    if code in _DAMAGED:
        return Corrupt(
            f"{path}: is damaged ({fault}); stop 'lading up' and restore it from a backup"
        )
    if code in _TAKEN:
        return Unavailable(
            f"{path}: another program holds it ({fault}); end that program, then try again"
        )
    if code == sqlite3.SQLITE_IOERR:
        return Unavailable(
            f"{path}: cannot be read or written ({fault}); see to the disk, then try again"
        )
    return Unavailable(f"the database cannot do that now: {fault}")


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


def _full(path: Path, fault: str) -> Full:
    return Full(f"{path}: no room to store records ({fault}); free some space on its disk")


def _code(error: Exception) -> int:
    """SQLite's primary result code, 0 when there is none."""
    # The low byte is the primary code; the rest makes it an extended code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
