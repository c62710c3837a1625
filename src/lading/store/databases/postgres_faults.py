"""Errors of PostgreSQL and of connections to it as errors of `core.errors`, with the cause and the
remedy.
"""

from __future__ import annotations

from typing import Final

from asyncpg import InterfaceError, InvalidCachedStatementError, PostgresError
from asyncpg.exceptions import DataError as WrongArgument
from asyncpg.exceptions import InternalClientError

from lading.core.errors import Corrupt, Full, Invalid, LadingError, Unavailable
from lading.store.database import Interrupted

# The internal error is what asyncpg raises when the server ends a connection at an awkward moment.
FAULTS: Final = (
    PostgresError,
    InterfaceError,
    InternalClientError,
    OSError,
    TimeoutError,
    UnicodeEncodeError,
)
# SQLSTATE (PostgreSQL manual, appendix A): characters not representable.
_NUL: Final = ("22021", "22P05")
# Invalid authorization; no such database.
_NO_SUCH: Final = ("28", "3D")
# Connection exceptions; the server is shut down.
_LOST: Final = ("08", "57P")


def translate(error: Exception) -> LadingError:
    """The error for a failed statement."""
    text = " ".join(str(error).split())
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a text is not Unicode: it has half of a surrogate pair")
    if isinstance(error, InvalidCachedStatementError):
        return Interrupted(f"PostgreSQL: the tables have changed ({text}); try again")
    if isinstance(error, PostgresError):
        return _by_state(
            str(error.sqlstate or ""), text, str(getattr(error, "constraint_name", None) or "")
        )
    if isinstance(error, WrongArgument):
        return Invalid(f"a value does not fit: {text}")
    return _lost(text)


def cannot_connect(error: Exception, where: str) -> LadingError:
    """The error for a failed connection; Invalid when the configuration is the cause."""
    state = str(getattr(error, "sqlstate", "") or "")
    text = " ".join(str(error).split()) or type(error).__name__
    if state.startswith(_NO_SUCH):
        return Invalid(
            f"PostgreSQL at {where}: {text}; check PostgreSQL.Connection in the configuration"
        )
    return Unavailable(
        f"PostgreSQL at {where}: cannot be reached ({text});"
        " start it, or check PostgreSQL.Connection"
    )


def _by_state(state: str, text: str, constraint: str) -> LadingError:
    # Serialization failure; deadlock.
    if state in ("40001", "40P01"):
        return Interrupted(f"PostgreSQL: somebody else came first ({text}); try again")
    if state.startswith(_LOST):
        return _lost(text)
    # Unique violation.
    if state == "23505":
        return Invalid(f"duplicate key value violates unique constraint: {constraint or text}")
    if state in _NUL:
        return Invalid("a text holds a NUL character, which cannot be stored")
    # Numeric value out of range.
    if state == "22003":
        return Invalid(f"a number is too large: {text}")
    # Data exceptions; integrity violations.
    if state.startswith(("22", "23")):
        return Invalid(f"a value does not fit: {text}")
    # Program limit exceeded: an index entry has at most a third of a page.
    if state == "54000":
        return Invalid(f"a text is too long to be looked up by: {text}")
    # Disk full.
    if state == "53100":
        return Full(f"PostgreSQL: no room to store records ({text}); free some space on its disk")
    # Data corrupted, index corrupted. XX000 is an internal error of any kind.
    if state.startswith("XX0") and state != "XX000":
        return Corrupt(
            f"PostgreSQL: is damaged ({text}); stop all servers and restore it from a backup"
        )
    # Lock not available: `lock_timeout` has passed.
    if state == "55P03":
        return Unavailable("PostgreSQL: other servers keep changing it; try again later")
    return Unavailable(f"PostgreSQL cannot do that now: {text}")


def _lost(text: str) -> LadingError:
    return Interrupted(f"PostgreSQL: the connection was lost ({text}); try again")
