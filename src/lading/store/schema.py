"""The tables, from the record types; and how an older database becomes a present one.

Tables, columns and indexes that are missing are added, nothing is ever dropped. A table of its own remembers the
version; a database written by a later version is refused. Version 2 sealed what versions before it kept in clear.
"""

from __future__ import annotations

from collections.abc import Iterator

from lading.core.errors import Invalid
from lading.core.records import COLLECTIONS, RECORDS
from lading.core.schema import Field, RecordType
from lading.store import records
from lading.store.database import Database, Dialect, Transaction

VERSION = 2
_VERSIONS = "CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)"


async def prepare(database: Database, *, now: str) -> None:
    """Bring the database up to the present version. Raises Invalid when it is from a later one."""
    async with database.writing() as tx:
        await tx.execute(_VERSIONS)
        found = (await tx.fetch("SELECT max(version) FROM schema_versions"))[0][0]
        if isinstance(found, int) and found > VERSION:
            raise Invalid(f"the database is of version {found}, this program of {VERSION}: use a later release")
        for kind in RECORDS:
            if kind.stored:
                await _prepare_table(tx, database.dialect, kind)
                if isinstance(found, int) and found < VERSION:
                    await records.seal_all(tx, kind)
        await tx.execute("INSERT INTO schema_versions VALUES (?, ?) ON CONFLICT DO NOTHING", (VERSION, now))


async def _prepare_table(tx: Transaction, dialect: Dialect, kind: RecordType) -> None:
    present = {row[0] for row in await tx.fetch(dialect.columns(), (kind.plural,))}
    if not present:
        await tx.execute(create_table(dialect, kind))
    for one in kind.columns:
        if present and one.name not in present:
            await tx.execute(f"ALTER TABLE {kind.plural} ADD COLUMN {_column(dialect, kind, one)}")
    for statement in create_indexes(kind):
        await tx.execute(statement)


def create_table(dialect: Dialect, kind: RecordType) -> str:
    """The statement that makes the table of a record type."""
    columns = ", ".join(_column(dialect, kind, one) for one in kind.columns)
    return f"CREATE TABLE {kind.plural} ({columns})"


def _column(dialect: Dialect, kind: RecordType, one: Field) -> str:
    words = [one.name, dialect.column_type(one.type)]
    if one.name == ("id" if kind.numbered else "uuid"):
        words.append("PRIMARY KEY")
    elif one.name == "uuid":
        words.append("UNIQUE")
    elif one.default is not None:
        words.append(f"DEFAULT {dialect.literal(one.default)}")
    return " ".join(words)


def create_indexes(kind: RecordType) -> Iterator[str]:
    """The statements that make the indexes of a record type."""
    for fields in kind.indexes:
        name = "_".join((kind.plural, *fields))
        yield f"CREATE INDEX IF NOT EXISTS {name} ON {kind.plural} ({', '.join(fields)})"
    for fields in kind.unique:
        name = "_".join(("unique", kind.plural, *fields))
        where = " WHERE is_trashed = 0 AND current_version_uuid = uuid" if kind is COLLECTIONS else ""
        yield f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {kind.plural} ({', '.join(fields)}){where}"
