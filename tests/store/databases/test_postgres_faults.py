"""What PostgreSQL says, in our words: one line, with the right status."""

from __future__ import annotations

import asyncpg
import pytest

from lading.core.errors import Corrupt, Full, Invalid, LadingError, Unavailable
from lading.store.database import TransactionInterrupted
from lading.store.databases.postgres_link import cannot_connect, translate


def said(state: str) -> asyncpg.PostgresError:
    """What the server says with a state."""
    return asyncpg.PostgresError.new({"C": state, "M": "a message\nof two lines", "S": "ERROR"})


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (said("23505"), Invalid, "duplicate key value violates"),
        (said("22021"), Invalid, "NUL"),
        (said("22P05"), Invalid, "NUL"),
        (said("22003"), Invalid, "too large"),
        (said("23502"), Invalid, "does not fit"),
        (said("54000"), Invalid, "too long"),
        (said("53100"), Full, "free some space"),
        (said("53300"), Unavailable, "cannot do that now"),
        (said("55P03"), Unavailable, "other servers"),
        (said("XX001"), Corrupt, "restore it"),
        (said("40001"), TransactionInterrupted, "try again"),
        (said("40P01"), TransactionInterrupted, "try again"),
        (said("08006"), TransactionInterrupted, "connection was lost"),
        (said("57P01"), TransactionInterrupted, "connection was lost"),
        (asyncpg.InvalidCachedStatementError("x"), TransactionInterrupted, "tables have changed"),
        (asyncpg.exceptions.DataError("x"), Invalid, "does not fit"),
        (asyncpg.InterfaceError("closed"), TransactionInterrupted, "connection was lost"),
        (ConnectionResetError("gone"), TransactionInterrupted, "connection was lost"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), Invalid, "not Unicode"),
    ],
)
def test_words(error: Exception, kind: type[LadingError], words: str) -> None:
    found = translate(error)
    assert type(found) is kind
    assert words in found.message
    assert "\n" not in found.message


def test_why_there_is_no_connection() -> None:
    assert type(cannot_connect(said("28P01"), "h:1/d")) is Invalid
    assert type(cannot_connect(said("3D000"), "h:1/d")) is Invalid
    refused = cannot_connect(ConnectionRefusedError("refused"), "h:1/d")
    assert type(refused) is Unavailable
    assert "PostgreSQL at h:1/d" in refused.message
