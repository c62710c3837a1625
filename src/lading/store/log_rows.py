"""Log rows in the database: their properties in the short form, and the SQL that reads them.

A row has its properties in one of two columns: `properties` as JSON, or `shortened` in the short
form of `core.records.log_texts`. A query selects the short form with the columns that its codes
stand for, and Python makes JSON of it (`decode`); a filter calls a function of the database,
FUNCTION, which each dialect makes from the same phrases. Columns that repeat others are null in a
row with the short form; each query reads those others in their place. Older rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final, TypeAlias

import msgspec

from lading.core.quantities import format_time, parse_time
from lading.core.records.expressions import Among, Column, Compare, Expression, Query
from lading.core.records.log_texts import (
    CLUSTER_SIZE,
    COLUMNS,
    MINUTE_SIZE,
    SUMMARY_JOINT,
    LogColumns,
    lengthen,
    phrases,
)
from lading.core.records.record_types import LOGS
from lading.core.records.schema import JSON, Field, RecordType
from lading.store.database import Value

SHORT_FORM: Final = 13
"""The version of the schema that has the short form."""
REPEATS_LEFT_OUT: Final = 14
"""The version of the schema in whose short form columns that repeat others are null."""
FUNCTION: Final = "lading_log_properties"
"""SQL function of the columns in `_ARGUMENTS`: the properties as JSON."""
PROPERTIES: Final = LOGS.by_name["properties"]
_REPEATED: Final[Mapping[str, str]] = {
    "event_at": "logs.created_at",
    "modified_at": "logs.created_at",
    "modified_by_user_uuid": "logs.owner_uuid",
    "summary": f"logs.event_type || '{SUMMARY_JOINT}' || logs.object_uuid",
}
"""SQL expressions of the values in `core.records.log_texts.repeated`."""
_ARGUMENTS: Final = ("properties", "shortened", *COLUMNS)
_SEPARATOR: Final = " "
# A server of an older version, which cannot read the short form, may go on beside a newer one
# while servers are upgraded one by one.
_ROLLING: Final = timedelta(days=1)
_Text: TypeAlias = str | None


def first_short(applied_at: str, *, alone: bool) -> str:
    """The time from which on rows are stored in the short form, for a database that has had its
    version since `applied_at`; `alone`: no server of an older version uses it.
    """
    return "" if alone else format_time(parse_time(applied_at) + _ROLLING)


def is_computed(table: str, column: str) -> bool:
    """Whether an expression has to take the place of a column of a table."""
    return table == LOGS.plural and (column == PROPERTIES.name or column in _REPEATED)


def is_about_objects(table: str, query: Query) -> bool:
    """Whether a query is for the log rows of objects that it names. A distinct list is not: it is
    ordered by what it selects.
    """
    return table == LOGS.plural and not query.distinct and any(map(_names_objects, query.where))


def _names_objects(term: Expression) -> bool:
    match term:
        case Compare(target=Column(name="object_uuid"), operator="="):
            return term.value is not None
        case Among(target=Column(name="object_uuid"), negated=False):
            return True
    return False


def is_short(field: Field) -> bool:
    """Whether a field is the one that may be in the short form."""
    return field is PROPERTIES


def selected(kind: RecordType, field: Field) -> str:
    """SQL expression of a field of any type of record, named like the field. `as_json` and `as_raw`
    decode the expression of the properties of log rows.
    """
    if not is_short(field):
        return distinct(kind, field)
    short = f" || '{_SEPARATOR}' || ".join(f"logs.{name}" for name in (*COLUMNS, "shortened"))
    return f"coalesce(logs.properties, {short}) AS properties"


def distinct(kind: RecordType, field: Field) -> str:
    """Like `selected`, with the same value for equal properties."""
    if not is_computed(kind.plural, field.name):
        return f"{kind.plural}.{field.name}"
    return f"{expression(field.name)} AS {field.name}"


def expression(column: str) -> str:
    """SQL expression of the value of a computed column; properties are JSON."""
    if column == PROPERTIES.name:
        return f"{FUNCTION}({', '.join(f'logs.{name}' for name in _ARGUMENTS)})"
    # A row without the short form may have null in it.
    return (
        f"CASE WHEN logs.{column} IS NULL AND logs.shortened IS NOT NULL THEN {_REPEATED[column]}"
        f" ELSE logs.{column} END"
    )


def as_json(value: Value) -> JSON:
    """The properties, of a value of `selected`."""
    return None if value is None else msgspec.json.decode(decode(str(value)))


def as_raw(value: Value) -> JSON:
    """The properties as a text that is copied to the response, of a value of `selected`."""
    return None if value is None else msgspec.Raw(decode(str(value)))


def decode(value: str) -> str:
    """The JSON text of the properties, of a value of `selected`."""
    if value.startswith("{"):
        return value
    *columns, short = value.split(_SEPARATOR, len(COLUMNS))
    return lengthen(short, LogColumns(*columns))


def sqlite_function() -> Callable[..., _Text]:
    """FUNCTION for SQLite."""

    def properties(plain: _Text, short: _Text, *columns: str) -> _Text:
        return plain if short is None else lengthen(short, LogColumns(*columns))

    return properties


def postgres_function() -> str:
    """The statement that makes FUNCTION in PostgreSQL."""
    expression = "shortened"
    for code, replacement in _replacements():
        expression = f"replace({expression}, '{code}', {replacement})"
    arguments = ", ".join(f"{argument} text" for argument in _ARGUMENTS)
    return (
        f"CREATE OR REPLACE FUNCTION {FUNCTION} ({arguments})"
        " RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $lading$"
        f" SELECT CASE WHEN shortened IS NULL THEN properties ELSE {expression} END $lading$"
    )


def _replacements() -> Iterator[tuple[str, str]]:
    """Each code with the SQL expression of its text: phrases before the codes in them."""
    for code, phrase in phrases():
        yield code, "'" + phrase.replace("'", "''") + "'"
    cuts = (MINUTE_SIZE, CLUSTER_SIZE)
    parts = (f"left(created_at, {cuts[0]})", f"left(object_uuid, {cuts[1]})")
    names = LogColumns("object_uuid", "object_owner_uuid", "owner_uuid", "created_at")
    for (code, _), expression in zip(names.codes(), (*names, *parts), strict=True):
        yield code, expression
