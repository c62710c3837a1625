"""Lists the changes of an upgrade to this version, without changing the database.

`schema.prepare` does it: missing tables and columns first, then the migrations that the database
lacks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lading.core.records.record_types import RECORDS
from lading.store.database import Database
from lading.store.databases.sqlite import SqliteDialect
from lading.store.databases.sqlite_faults import cannot_open
from lading.store.schema import MIGRATIONS, VERSION, refuse_later

# Seconds to wait for a program that writes.
_PATIENCE: Final = 10.0
_NEWEST: Final = "SELECT max(version) FROM schema_versions"
_VERSIONS: Final = "schema_versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeCheck:
    """Versions of the database (None: it has no tables yet) and of this program. The missing steps
    are names of migrations in their order; the missing columns are TABLE.COLUMN.
    """

    present: int | None
    version: int
    steps: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def check_file(path: Path) -> UpgradeCheck:
    """Check an SQLite file, also while it is served. Raises Invalid when it cannot be read, or is
    of a later version.
    """
    if not path.exists():
        return _compare(None, {})
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
            columns = {
                table: {row[0] for row in connection.execute(SqliteDialect.columns, (table,))}
                for table in _tables()
            }
            version = connection.execute(_NEWEST).fetchone()[0] if columns[_VERSIONS] else None
    except sqlite3.Error as error:
        raise cannot_open(path, error) from error
    return _compare(version, columns)


async def check_database(database: Database) -> UpgradeCheck:
    """Check an open database. Raises Invalid when it is of a later version."""
    async with database.reading() as tx:
        columns = {
            table: {str(row[0]) for row in await tx.fetch(database.dialect.columns, (table,))}
            for table in _tables()
        }
        version = (await tx.fetch(_NEWEST))[0][0] if columns[_VERSIONS] else None
    return _compare(version, columns)


def _tables() -> tuple[str, ...]:
    return (_VERSIONS, *(kind.plural for kind in RECORDS if kind.stored))


def _compare(version: object, columns: Mapping[str, set[str]]) -> UpgradeCheck:
    if not isinstance(version, int):
        return UpgradeCheck(present=None, version=VERSION)
    refuse_later(version)
    missing = (
        f"{kind.plural}.{column.name}"
        for kind in RECORDS
        if kind.stored
        for column in kind.columns
        if column.name not in columns[kind.plural]
    )
    return UpgradeCheck(
        present=version,
        version=VERSION,
        steps=tuple(migration.name for migration in MIGRATIONS if migration.number > version),
        columns=tuple(missing),
    )
