"""Schema of the database: tables made from the record types, and the upgrade of an older database.

Tables, columns and indexes that are missing are added first. Then the migrations run that the
database lacks: ordered, named steps, forward only, in one transaction. So a step is needed only
where stored values have to change. A step is never changed once it was released: append another.
The table `schema_versions` has every step that was run, with its name.

No record is ever dropped. A database written by a later version is refused.
"""

# ruff: noqa: ARG001 - every step takes both arguments

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from lading.core.errors import Invalid
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS, GROUPS, RECORDS
from lading.core.records.schema import JSON, Field, RecordType, Type
from lading.store import (
    cancellations,
    cascades,
    fair_shares,
    learned,
    log_rows,
    permissions,
    quotas,
    records,
    run_ends,
    run_times,
    statuses,
    transfers,
    upkeep,
    webhooks,
)
from lading.store.containers import attempts, intervals, lineage, reusable, waiting
from lading.store.database import Database, Dialect, Transaction
from lading.store.query import may_be_true

Step: TypeAlias = Callable[[Transaction, Dialect], Awaitable[None]]
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS schema_versions"
    " (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL, name TEXT)"
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step; `number` is the version that it leads to."""

    number: int
    name: str
    step: Step


async def _first_tables(tx: Transaction, dialect: Dialect) -> None:
    """Create the first schema; nothing to migrate."""


async def _seal_runtime_tokens(tx: Transaction, dialect: Dialect) -> None:
    """Seal the runtime tokens that version 1 stored in clear."""
    for kind in RECORDS:
        if kind.stored:
            await records.seal_all(tx, kind)


async def _name_steps(tx: Transaction, dialect: Dialect) -> None:
    """Store the names of earlier steps, which had numbers only."""
    for migration in MIGRATIONS:
        await tx.execute(
            "UPDATE schema_versions SET name = ? WHERE version = ?",
            (migration.name, migration.number),
        )


async def _fill_broad_keys(tx: Transaction, dialect: Dialect) -> None:
    """Store broad keys of existing containers, for requests with ranges."""
    await reusable.fill_broad_keys(tx)


# Names of indexes; the partial indexes that replaced them have the prefix "sparse".
_SUPERSEDED: Final = (
    "collections_delete_at",
    "collections_trash_at",
    "container_requests_requesting_container_uuid_state",
    "container_requests_state_expires_at",
    "container_requests_state_start_after",
    "containers_auth_uuid",
    "containers_locked_by_uuid",
    "containers_log",
    "containers_output",
    "links_tail_uuid",
)


async def _drop_superseded_indexes(tx: Transaction, dialect: Dialect) -> None:
    """Drop indexes that were replaced by partial indexes."""
    for name in _SUPERSEDED:
        await tx.execute(f"DROP INDEX IF EXISTS {name}")


async def _seal_secret_mounts(tx: Transaction, dialect: Dialect) -> None:
    """Seal secret mounts, which were stored as JSON in clear."""
    text = dialect.column_type(Type.STRING)
    # PostgreSQL only: SQLite stores both types as TEXT.
    if dialect.column_type(Type.OBJECT) != text:
        for kind in (REQUESTS, CONTAINERS):
            await tx.execute(f"ALTER TABLE {kind.plural} ALTER COLUMN secret_mounts TYPE {text}")
    for kind in (REQUESTS, CONTAINERS):
        await records.seal_all(tx, kind)


async def _fill_inputs(tx: Transaction, dialect: Dialect) -> None:
    """Store the inputs of existing containers in the index of inputs."""
    await lineage.fill_inputs(tx)


async def _drop_indexes_of_single_keys(tx: Transaction, dialect: Dialect) -> None:
    """Drop the indexes of single keys; one index has both keys of a container and costs fewer page
    writes.
    """
    for name in ("containers_reuse_key_state", "containers_broad_key_state"):
        await tx.execute(f"DROP INDEX IF EXISTS {name}")


async def leave_states_unmeasured(tx: Transaction, dialect: Dialect) -> None:
    """Drop the statistics of the state columns, which planners would use to estimate numbers of
    rows.

    Statistics are made when nearly all records have ended. A plan based on them expects no waiting
    records, and then reads all waiting records to find one of them. New databases get the same
    settings.
    """
    for kind in (REQUESTS, CONTAINERS):
        for setting in dialect.unmeasured:
            await tx.execute(f"ALTER TABLE {kind.plural} ALTER COLUMN state {setting}")


async def _recheck_nested_values(tx: Transaction, dialect: Dialect) -> None:
    """Replace the check of nested values by a cheaper one."""
    for statement in dialect.rechecked:
        await tx.execute(statement)


async def _fill_attempts(tx: Transaction, dialect: Dialect) -> None:
    """Store the attempts of existing requests, so that their logs are kept."""
    await attempts.fill_attempts(tx)


async def _fill_former_owners(tx: Transaction, dialect: Dialect) -> None:
    """Store the former owners of moved records, which decide who reads about the move."""
    await upkeep.fill_former_owners(tx)


async def _short_log_rows(tx: Transaction, dialect: Dialect) -> None:
    """Only new rows have the short form; earlier ones are read as they are."""


async def _leave_out_repeats(tx: Transaction, dialect: Dialect) -> None:
    """Only new log rows leave columns out; earlier ones are read as they are."""


MIGRATIONS: Final = (
    Migration(1, "first tables", _first_tables),
    Migration(2, "seal runtime tokens", _seal_runtime_tokens),
    Migration(3, "name the steps", _name_steps),
    Migration(4, "broad keys of containers", _fill_broad_keys),
    Migration(5, "indexes without nulls", _drop_superseded_indexes),
    Migration(6, "seal secret mounts", _seal_secret_mounts),
    Migration(7, "inputs of containers", _fill_inputs),
    Migration(8, "one index for both keys", _drop_indexes_of_single_keys),
    Migration(9, "states without statistics", leave_states_unmeasured),
    Migration(10, "a quicker check of nested values", _recheck_nested_values),
    Migration(11, "attempts of requests", _fill_attempts),
    Migration(12, "former owners in log rows", _fill_former_owners),
    Migration(log_rows.SHORT_FORM, "a short form of log rows", _short_log_rows),
    Migration(log_rows.REPEATS_LEFT_OUT, "log rows without repeated columns", _leave_out_repeats),
)
VERSION: Final = MIGRATIONS[-1].number


async def check_version(tx: Transaction, dialect: Dialect) -> int | None:
    """Version of the database, None for a new one. Raises Invalid when it is from a later
    release.
    """
    await tx.execute(_TABLE)
    # The first versions of this table had no names (step 3).
    if "name" not in {row[0] for row in await tx.fetch(dialect.columns, ("schema_versions",))}:
        await tx.execute("ALTER TABLE schema_versions ADD COLUMN name TEXT")
    version = (await tx.fetch("SELECT max(version) FROM schema_versions"))[0][0]
    if not isinstance(version, int):
        return None
    refuse_later(version)
    return version


def refuse_later(version: int) -> None:
    """Raise Invalid when a database of `version` is from a later release, which may have stored
    values that this program would misread.
    """
    if version > VERSION:
        raise Invalid(
            f"the database is of version {version}, this program of {VERSION}: use a later release"
        )


async def migrate(tx: Transaction, dialect: Dialect, *, version: int | None, now: str) -> None:
    """Run the missing steps and record each; a new database only records them."""
    for migration in MIGRATIONS:
        if version is not None and migration.number <= version:
            continue
        if version is not None:
            await migration.step(tx, dialect)
        values = (migration.number, now, migration.name)
        await tx.execute(
            "INSERT INTO schema_versions (version, applied_at, name) VALUES (?, ?, ?)", values
        )


# Condition of unique indexes: records outside the trash.
_PRESENT = {
    COLLECTIONS.plural: " WHERE is_trashed = 0 AND current_version_uuid = uuid",
    GROUPS.plural: " WHERE is_trashed = 0",
}


async def prepare(database: Database, *, now: str) -> None:
    """Bring the database up to the present version. Raises Invalid when it is from a later one."""
    async with database.writing() as tx:
        version = await check_version(tx, database.dialect)
        plain = (
            *waiting.TABLES,
            *intervals.ALLOCATION_TABLES,
            *statuses.STATUS_TABLES,
            *lineage.INPUT_TABLES,
            *attempts.ATTEMPT_TABLES,
            *transfers.TABLES,
            *learned.TABLES,
            *run_times.TABLES,
            *fair_shares.TABLES,
            *webhooks.TABLES,
            *run_ends.TABLES,
            *quotas.TABLES,
            *cancellations.TABLES,
            *cascades.TABLES,
        )
        # In this order: functions and domains of the dialect first, tables use them.
        statements = (*database.dialect.preamble, *plain, *permissions.tables(database.dialect))
        for statement in statements:
            await tx.execute(statement)
        for kind in RECORDS:
            if kind.stored:
                await _prepare_table(tx, database.dialect, kind)
        # Only for a new database: older ones get it by step 9.
        if version is None:
            await leave_states_unmeasured(tx, database.dialect)
        await migrate(tx, database.dialect, version=version, now=now)
        database.short_logs_since = await _first_short_log(tx, alone=not database.shared)


async def _first_short_log(tx: Transaction, *, alone: bool) -> str:
    """The time from which on log rows are stored in the short form of the present version: an
    older server would read null in columns that repeat others.
    """
    rows = await tx.fetch(
        "SELECT applied_at, applied_at = (SELECT max(applied_at) FROM schema_versions"
        " WHERE version = 1) FROM schema_versions WHERE version = ?",
        (log_rows.REPEATS_LEFT_OUT,),
    )
    applied_at, is_new = rows[0]
    # No older server has seen a database that began with the short form.
    return log_rows.first_short(str(applied_at), alone=alone or bool(is_new))


async def _prepare_table(tx: Transaction, dialect: Dialect, kind: RecordType) -> None:
    present = {row[0] for row in await tx.fetch(dialect.columns, (kind.plural,))}
    if not present:
        await tx.execute(create_table(dialect, kind))
    # Columns are only added: older programs on the same database ignore them.
    for field in kind.columns:
        if present and field.name not in present:
            await tx.execute(
                f"ALTER TABLE {kind.plural} ADD COLUMN {_column(dialect, kind, field)}"
            )
    for statement in create_indexes(dialect, kind):
        await tx.execute(statement)


def create_table(dialect: Dialect, kind: RecordType) -> str:
    """The statement that makes the table of a record type."""
    columns = ", ".join(_column(dialect, kind, field) for field in kind.columns)
    return f"CREATE TABLE {kind.plural} ({columns})"


def _column(dialect: Dialect, kind: RecordType, field: Field) -> str:
    numbers = kind.numbered and field.name == "id"
    # Sealed values of any type are texts.
    kept_as = "number" if numbers else Type.STRING if field.sealed else field.type
    words = [field.name, dialect.column_type(kept_as)]
    if numbers or (field.name == "uuid" and not kind.numbered):
        words.append("PRIMARY KEY")
    elif field.name == "uuid":
        words.append("UNIQUE")
    elif field.default is not None:
        words.append(f"DEFAULT {_literal(field.default)}")
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
            " AND ".join(f"{field} IS NOT NULL" for field in fields),
        )
        yield (
            f"CREATE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(map(dialect.order, fields))})"
            f" WHERE {where}"
        )
    for index in kind.key_indexes:
        name = "_".join(("true", kind.plural, index.column, index.key))
        yield (
            f"CREATE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(map(dialect.order, index.fields))})"
            f" WHERE {may_be_true(index.column, index.key)}"
        )
    for fields in kind.unique:
        name = "_".join(("unique", kind.plural, *fields))
        where = _PRESENT.get(kind.plural, "")
        yield (
            f"CREATE UNIQUE INDEX IF NOT EXISTS {name}"
            f" ON {kind.plural} ({', '.join(fields)}){where}"
        )
