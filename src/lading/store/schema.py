"""Schema: tables made from the record types, and the upgrade of an older database.

Tables, columns and indexes that are missing are added, no record is ever dropped; then come the
steps of `migrations`. A database written by a later version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lading.core.records.record_types import COLLECTIONS, GROUPS, RECORDS
from lading.core.records.schema import JSON, Field, RecordType, Type
from lading.store import (
    accounting,
    attempts,
    dispatchers,
    lineage,
    migrations,
    permissions,
    waiting,
)
from lading.store.database import Database, Dialect, Transaction

_PRESENT = {
    COLLECTIONS.plural: " WHERE is_trashed = 0 AND current_version_uuid = uuid",
    GROUPS.plural: " WHERE is_trashed = 0",
}
"""Condition of unique indexes: records outside the trash."""


async def prepare(database: Database, *, now: str) -> None:
    """Bring the database up to the present version. Raises Invalid when it is from a later one."""
    async with database.writing() as tx:
        found = await migrations.check(tx, database.dialect)
        plain = (
            *waiting.TABLES,
            *accounting.TABLES,
            *dispatchers.TABLES,
            *lineage.TABLES,
            *attempts.TABLES,
        )
        # In this order: functions and domains of the dialect first, tables use them.
        made = (*database.dialect.preamble, *plain, *permissions.tables(database.dialect))
        for statement in made:
            await tx.execute(statement)
        for kind in RECORDS:
            if kind.stored:
                await _prepare_table(tx, database.dialect, kind)
        # Only for a new database: older ones get it by step 9.
        if found is None:
            await migrations.leave_states_unmeasured(tx, database.dialect)
        await migrations.migrate(tx, database.dialect, found=found, now=now)


async def _prepare_table(tx: Transaction, dialect: Dialect, kind: RecordType) -> None:
    present = {row[0] for row in await tx.fetch(dialect.columns, (kind.plural,))}
    if not present:
        await tx.execute(create_table(dialect, kind))
    # Columns are only added: older programs on the same database ignore them.
    for one in kind.columns:
        if present and one.name not in present:
            await tx.execute(f"ALTER TABLE {kind.plural} ADD COLUMN {_column(dialect, kind, one)}")
    for statement in create_indexes(dialect, kind):
        await tx.execute(statement)


def create_table(dialect: Dialect, kind: RecordType) -> str:
    """The statement that makes the table of a record type."""
    columns = ", ".join(_column(dialect, kind, one) for one in kind.columns)
    return f"CREATE TABLE {kind.plural} ({columns})"


def _column(dialect: Dialect, kind: RecordType, one: Field) -> str:
    numbers = kind.numbered and one.name == "id"
    # Sealed values are texts, whatever their type.
    kept_as = "number" if numbers else Type.STRING if one.sealed else one.type
    words = [one.name, dialect.column_type(kept_as)]
    if numbers or (one.name == "uuid" and not kind.numbered):
        words.append("PRIMARY KEY")
    elif one.name == "uuid":
        words.append("UNIQUE")
    elif one.default is not None:
        words.append(f"DEFAULT {_literal(one.default)}")
    return " ".join(words)


def _literal(value: JSON) -> str:
    if isinstance(value, int | float):
        return repr(int(value) if isinstance(value, bool) else value)
    # Literals, as placeholders are not allowed in DDL; the values are constants of the record
    # types.
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return "'" + text.replace("'", "''") + "'"


def create_indexes(dialect: Dialect, kind: RecordType) -> Iterator[str]:
    """The statements that make the indexes of a record type."""
    for fields in kind.indexes:
        name = "_".join((kind.plural, *fields))
        yield (
            f"CREATE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(map(dialect.order, fields))})"
        )
    for fields in kind.sparse:
        name, where = (
            "_".join(("sparse", kind.plural, *fields)),
            " AND ".join(f"{one} IS NOT NULL" for one in fields),
        )
        yield (
            f"CREATE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(map(dialect.order, fields))})"
            f" WHERE {where}"
        )
    for fields in kind.unique:
        name = "_".join(("unique", kind.plural, *fields))
        where = _PRESENT.get(kind.plural, "")
        yield (
            f"CREATE UNIQUE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(fields)}){where}"
        )
