"""Reads and writes records of every type.

A record is a dict of JSON values; nested values are JSON text in the table, booleans are 0 and 1,
sealed fields are decrypted and encrypted here. The caller may change a returned record: nothing
else refers to it.
"""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from lading.core.errors import Conflict
from lading.core.records.expressions import Column, Compare, Expression, Query, SortKey
from lading.core.records.permissions import Accessible, Untrashed
from lading.core.records.record_types import RECORDS
from lading.core.records.schema import JSON, Field, Record, RecordType, Type
from lading.store import log_rows
from lading.store.database import Deferred, Dialect, Row, Transaction, Value
from lading.store.databases.seal import MARK, Seal
from lading.store.query import ConditionWriter, page_statement

_Decoder: TypeAlias = Callable[[Value], JSON] | None
_Encoder: TypeAlias = Callable[[JSON], Value] | None
_decode_json = msgspec.json.Decoder().decode
# One decoder and encoder for all records: making them costs more than a small value.
_encode_json = msgspec.json.Encoder().encode


def _as_json(value: Value) -> JSON:
    return None if value is None else _decode_json(str(value))


def _as_raw(value: Value) -> JSON:
    # Copied to the response without decoding; see `search`.
    return None if value is None else msgspec.Raw(str(value))


def _as_bool(value: Value) -> JSON:
    return None if value is None else bool(value)


def _as_real(value: Value) -> JSON:
    # SQLite stores 1.0 as the integer 1.
    return float(value) if isinstance(value, int) else value


def _decoder(field: Field, *, raw: bool = False) -> _Decoder:
    """`raw`: nested values stay texts."""
    if log_rows.is_short(field):
        return log_rows.as_raw if raw else log_rows.as_json
    if field.nested:
        return _as_raw if raw else _as_json
    if field.type is Type.BOOLEAN:
        return _as_bool
    return _as_real if field.type is Type.FLOAT else None


def _to_json(value: JSON) -> Value:
    return None if value is None else _encode_json(value).decode()


def _to_number(value: JSON) -> Value:
    return None if value is None else int(value)


def _encoder(field: Field) -> _Encoder:
    if field.nested:
        return _to_json
    return _to_number if field.type is Type.BOOLEAN else None


def _encode(field: Field, value: JSON) -> Value:
    encode = _encoder(field)
    return value if encode is None else encode(value)


def _sealed(kind: RecordType, field: Field, value: JSON, seal: Seal) -> Value:
    encoded = _encode(field, value)
    # Null and the default are stored in clear.
    if not field.sealed or encoded is None or encoded == _encode(field, field.default):
        return encoded
    return seal.seal(str(encoded), column=f"{kind.plural}.{field.name}")


@dataclass(frozen=True)
class _Table:
    kind: RecordType
    encoders: tuple[tuple[str, _Encoder, Value], ...]
    """Each written column: name, encoder, and encoded default."""
    unreadable: tuple[tuple[int, Field], ...]
    decoders: tuple[tuple[str, _Decoder], ...]
    raw: tuple[tuple[str, _Decoder], ...]
    """Decoders that keep nested values as texts."""
    sealed: tuple[int, ...]
    select: str
    insert: str

    @classmethod
    def of(cls, kind: RecordType) -> _Table:
        # Numbers are given by the database.
        stored = [column for column in kind.columns if not (kind.numbered and column.name == "id")]
        names = tuple(column.name for column in stored)
        selected = ", ".join(log_rows.selected(kind, column) for column in kind.columns)
        return cls(
            kind,
            tuple(
                (column.name, _encoder(column), _encode(column, column.default))
                for column in stored
            ),
            tuple((number, column) for number, column in enumerate(stored) if column.sealed),
            tuple((column.name, _decoder(column)) for column in kind.columns),
            tuple((column.name, _decoder(column, raw=True)) for column in kind.columns),
            tuple(number for number, column in enumerate(kind.columns) if column.sealed),
            f"SELECT {selected} FROM {kind.plural}",
            f"INSERT INTO {kind.plural} ({', '.join(names)})"
            f" VALUES ({', '.join('?' for _ in names)})",
        )

    def encode(self, record: Mapping[str, JSON], seal: Seal) -> list[Value]:
        values = [
            default
            if name not in record
            else record[name]
            if encode is None
            else encode(record[name])
            for name, encode, default in self.encoders
        ]
        for number, column in self.unreadable:
            if values[number] is not None and values[number] != self.encoders[number][2]:
                values[number] = seal.seal(
                    str(values[number]), column=f"{self.kind.plural}.{column.name}"
                )
        return values

    def decode(self, row: Row, seal: Seal, *, raw: bool = False) -> Record:
        for number in self.sealed:
            value = row[number]
            if value is not None:
                text = seal.open(
                    str(value), column=f"{self.kind.plural}.{self.decoders[number][0]}"
                )
                row = (*row[:number], text, *row[number + 1 :])
        return {
            name: value if decode is None else decode(value)
            for (name, decode), value in zip(self.raw if raw else self.decoders, row, strict=True)
        }


_TABLES: Mapping[str, _Table] = {kind.plural: _Table.of(kind) for kind in RECORDS if kind.stored}


async def get(tx: Transaction, kind: RecordType, uuid: str) -> Record | None:
    """The record with this uuid, with hidden fields, without a check of permissions."""
    table = _TABLES[kind.plural]
    rows = await tx.fetch(f"{table.select} WHERE uuid = ?", (uuid,))
    return table.decode(rows[0], tx.seal) if rows else None


async def selected(
    tx: Transaction, kind: RecordType, condition: str, values: Sequence[Value]
) -> list[Record]:
    """All full records for a query; `condition` follows `FROM table`."""
    table = _TABLES[kind.plural]
    return [
        table.decode(row, tx.seal) for row in await tx.fetch(f"{table.select}{condition}", values)
    ]


async def selected_with(
    tx: Transaction, kind: RecordType, further: str, condition: str, values: Sequence[Value]
) -> list[tuple[Record, Row]]:
    """Like `selected`, each with the values of `further` expressions, whose placeholders come
    first.
    """
    table, count = _TABLES[kind.plural], len(kind.columns)
    # Only the first FROM: `further` may have subqueries.
    sql = f"{table.select.replace(' FROM ', f', {further} FROM ', 1)}{condition}"
    return [
        (table.decode(row[:count], tx.seal), row[count:]) for row in await tx.fetch(sql, values)
    ]


async def find(
    tx: Transaction,
    dialect: Dialect,
    kind: RecordType,
    where: Sequence[Expression],
    *,
    limit: int = 1_000_000,
    raw: bool = False,
) -> list[Record]:
    """All full records that meet the conditions, unordered; `raw` as in `search`."""
    table, writer = _TABLES[kind.plural], ConditionWriter(dialect, kind.plural)
    condition = writer.where(tuple(where))
    rows = await tx.fetch(f"{table.select}{condition} LIMIT ?", (*writer.values, limit))
    return [table.decode(row, tx.seal, raw=raw) for row in rows]


async def owned(tx: Transaction, kind: RecordType, owner_uuid: str, *, most: int) -> list[Record]:
    """Some full records of an owner."""
    return await selected(tx, kind, " WHERE owner_uuid = ? LIMIT ?", (owner_uuid, most))


async def matching(tx: Transaction, kind: RecordType, **values: Value) -> list[Record]:
    """All full records whose fields have these values (no nulls)."""
    table = _TABLES[kind.plural]
    condition = " AND ".join(f"{name} = ?" for name in values)
    rows = await tx.fetch(f"{table.select} WHERE {condition}", tuple(values.values()))
    return [table.decode(row, tx.seal) for row in rows]


async def among(
    tx: Transaction, kind: RecordType, name: str, values: Iterable[str]
) -> list[Record]:
    """All full records whose field `name` is one of `values`."""
    wanted = tuple(values)
    if not wanted:
        return []
    table = _TABLES[kind.plural]
    rows = await tx.fetch(
        f"{table.select} WHERE {name} IN ({', '.join('?' for _ in wanted)})", wanted
    )
    return [table.decode(row, tx.seal) for row in rows]


async def exists(
    tx: Transaction, dialect: Dialect, kind: RecordType, where: Sequence[Expression]
) -> bool:
    """Whether any record meets the conditions."""
    writer = ConditionWriter(dialect, kind.plural)
    condition = writer.where(tuple(where))
    return bool(await tx.fetch(f"SELECT 1 FROM {kind.plural}{condition} LIMIT 1", writer.values))


def _fields(kind: RecordType, query: Query) -> list[Field]:
    """The stored fields that a query reads."""
    # `extra`: columns that the server needs, for example for permissions, besides those selected.
    selected = query.select if query.select is not None else kind.listed
    extra = () if query.distinct else tuple(name for name in query.extra if name not in selected)
    fields = [kind.by_name[name] for name in (*selected, *extra)]
    # Without stored fields (only computed ones were selected), the uuid keeps one row per record.
    return [field for field in fields if field.stored] or [kind.by_name["uuid"]]


async def search(
    tx: Transaction, dialect: Dialect, kind: RecordType, query: Query, *, raw: bool = False
) -> list[Record]:
    """The page of records for a query, with the selected (or listed) stored fields.

    With `raw`, nested values stay texts that are copied to the response (`msgspec.Raw`), which
    saves most of the time.
    """
    fields = _fields(kind, query)
    columns = ", ".join(log_rows.selected(kind, field) for field in fields)
    if query.distinct:
        query = replace(query, order=_distinct_order(query.order, fields))
        columns = f"DISTINCT {', '.join(log_rows.distinct(kind, field) for field in fields)}"
    # Times have one length; any other text may be long.
    texts = (Type.STRING, Type.OBJECT, Type.ARRAY)
    wide = [field.name for field in fields if field.type in texts and field.name != "uuid"]
    if not wide:
        # The number of rows is limit enough.
        query = replace(query, most_bytes=0)
    rows = await _page(tx, dialect, kind, query, columns, wide)
    # Column by column: a page has thousands of values, and most need no conversion.
    decoded = [
        values if decode is None else map(decode, values)
        for decode, values in zip(
            (_decoder(field, raw=raw) for field in fields),
            zip(*rows, strict=True),
            strict=False,
        )
    ]
    names = [field.name for field in fields]
    return [dict(zip(names, row, strict=True)) for row in zip(*decoded, strict=True)]


async def search_texts(
    tx: Transaction, dialect: Dialect, kind: RecordType, query: Query
) -> list[tuple[str, str, str]] | None:
    """Like `search`, but each record as a text of JSON object members, with its uuid and
    `modified_at`.

    None where that is not faster. Not for queries with `distinct`.
    """
    # Each query reads `modified_at` as a column.
    if log_rows.is_computed(kind.plural, "modified_at"):
        return None
    names = query.select if query.select is not None else kind.listed
    fields = [kind.by_name[name] for name in names if kind.by_name[name].stored]
    real = [field.name for field in fields if field.type is Type.FLOAT]
    # Fractions are added in Python, because SQLite's printf would shorten them.
    members = (
        dialect.members([field for field in fields if field.type is not Type.FLOAT])
        if len(real) < len(fields)
        else ""
    )
    if not members:
        return None
    rows = await _page(tx, dialect, kind, query, ", ".join((members, "uuid", "modified_at", *real)))
    return [(f"{row[0]!s}{_fractions(real, row[3:])}", str(row[1]), str(row[2])) for row in rows]


def _fractions(names: Sequence[str], values: Row) -> str:
    """Members of a JSON object for fields with fractions, with all digits."""
    return "".join(
        f',"{name}":{"null" if value is None else repr(float(value))}'
        for name, value in zip(names, values, strict=True)
    )


async def _page(
    tx: Transaction,
    dialect: Dialect,
    kind: RecordType,
    query: Query,
    selected: str,
    wide: Sequence[str] = (),
) -> list[Row]:
    sql, values = page_statement(dialect, kind.plural, query, selected)
    return await tx.fetch(sql, values, most=query.most_bytes, wide=wide)


async def count(tx: Transaction, dialect: Dialect, kind: RecordType, query: Query) -> int:
    """Number of records that meet the conditions of a query."""
    writer = ConditionWriter(dialect, kind.plural)
    where = query.where
    # Without the owners an index alone has the answer, where each row would be read otherwise.
    if any(isinstance(condition, Untrashed) for condition in where) and not await _has_trash(tx):
        where = tuple(condition for condition in where if not isinstance(condition, Untrashed))
    condition = writer.where(tuple(_counted(expression) for expression in where))
    source = f"{kind.plural}{condition}"
    if query.distinct and query.select is not None:
        names = ", ".join(log_rows.distinct(kind, kind.by_name[name]) for name in query.select)
        source = f"(SELECT DISTINCT {names} FROM {source}) AS found"
    rows = await tx.fetch(f"SELECT count(*) FROM {source}", writer.values)
    return int(rows[0][0] or 0)


async def _has_trash(tx: Transaction) -> bool:
    """Whether any group is, or will be, in the trash."""
    return bool(await tx.fetch("SELECT 1 FROM group_standing WHERE trash_at IS NOT NULL LIMIT 1"))


def _counted(condition: Expression) -> Expression:
    """The condition for a count, which reads all matching rows: the index on owners is used
    again.
    """
    # With shared records the condition has an OR and is not changed.
    return (
        replace(condition, dense=False)
        if isinstance(condition, Accessible) and condition.shared == ()
        else condition
    )


def _distinct_order(order: Sequence[SortKey], fields: Sequence[Field]) -> tuple[SortKey, ...]:
    """Sort keys among the selected columns, then all other selected columns, so that pages do not
    overlap.
    """
    names = [field.name for field in fields]
    keys = tuple(key for key in order if key.column in names)
    return keys + tuple(SortKey(name) for name in names if name not in {key.column for key in keys})


async def insert(tx: Transaction, kind: RecordType, record: Mapping[str, JSON]) -> int:
    """Store a new record; missing fields take their default. Returns the row number, if the type
    has one.

    Raises Invalid when a unique field collides with another record.
    """
    table = _TABLES[kind.plural]
    values = table.encode(record, tx.seal)
    if kind.numbered:
        return int((await tx.fetch(f"{table.insert} RETURNING id", values))[0][0] or 0)
    await tx.execute(table.insert, values)
    return 0


async def add(tx: Transaction, kind: RecordType, record: Mapping[str, JSON]) -> int:
    """Like `insert`, deferred: the transaction must not read the record. The number is 0 if not
    known yet.
    """
    table = _TABLES[kind.plural]
    values = table.encode(record, tx.seal)
    return await tx.defer(
        Deferred(sql=table.insert, values=values, row=f"{kind.plural} {record['uuid']}")
    )


async def add_all(
    tx: Transaction, kind: RecordType, names: Sequence[str], rows: Sequence[Sequence[JSON]]
) -> int:
    """Store new records of a type whose records have numbers.

    `names` are the fields that each row of `rows` has; none of them may be sealed, and there must
    be at least one row. Returns the number of the first record, and 0 if the database does not tell
    it. If it does, the numbers of the records follow one another.
    """
    encoders = [_encoder(kind.by_name[name]) for name in names]
    # Column by column: most need no conversion.
    columns = (
        values if encode is None else map(encode, values)
        for encode, values in zip(encoders, zip(*rows, strict=True), strict=True)
    )
    last = await tx.insert_all(kind.plural, names, list(zip(*columns, strict=True)))
    return last - len(rows) + 1 if last else 0


async def change_all(
    tx: Transaction,
    dialect: Dialect,
    kind: RecordType,
    uuids: Sequence[str],
    changes: Mapping[str, JSON],
) -> None:
    """Change the same fields of many records, which were read in this transaction. Raises Conflict
    when one of them does not exist.
    """
    assignments = ", ".join(f"{name} = ?" for name in changes)
    values = [_sealed(kind, kind.by_name[name], value, tx.seal) for name, value in changes.items()]
    sql = f"UPDATE {kind.plural} SET {assignments} WHERE {dialect.among.format('uuid')}"
    changed = await tx.execute(sql, (*values, _encode_json(uuids).decode()), is_long=True)
    if changed != len(uuids):
        raise Conflict(f"{len(uuids) - changed} of {len(uuids)} {kind.plural} are not there")


async def update(
    tx: Transaction,
    kind: RecordType,
    uuid: str,
    changes: Mapping[str, JSON],
    *,
    expected: Mapping[str, JSON] | None = None,
) -> bool:
    """Compare and set: change fields if the record has the `expected` values; return whether it
    had.

    Raises Invalid when a unique field collides with another record.
    """
    return await tx.execute(*_update(tx, kind, uuid, changes, expected or {})) > 0


async def change(
    tx: Transaction,
    kind: RecordType,
    uuid: str,
    changes: Mapping[str, JSON],
    *,
    expected: Mapping[str, JSON],
) -> None:
    """Like `update`, deferred, for a record read in this transaction. Raises Conflict on commit at
    the latest.
    """
    sql, values = _update(tx, kind, uuid, changes, expected)
    missed = f"{uuid}: it was changed at the same time; read it again"
    await tx.defer(Deferred(sql=sql, values=values, row=f"{kind.plural} {uuid}", missed=missed))


def _update(
    tx: Transaction,
    kind: RecordType,
    uuid: str,
    changes: Mapping[str, JSON],
    expected: Mapping[str, JSON],
) -> tuple[str, list[Value]]:
    fields = kind.by_name
    assignments = ", ".join(f"{name} = ?" for name in changes)
    values: list[Value] = [
        _sealed(kind, fields[name], value, tx.seal) for name, value in changes.items()
    ]
    # The comparison is in the statement itself: no other change can come in between.
    conditions = ["uuid = ?"]
    values.append(uuid)
    # `= NULL` is never true in SQL.
    for name, value in expected.items():
        conditions.append(f"{name} IS NULL" if value is None else f"{name} = ?")
        if value is not None:
            values.append(_encode(fields[name], value))
    return f"UPDATE {kind.plural} SET {assignments} WHERE {' AND '.join(conditions)}", values


async def delete(tx: Transaction, kind: RecordType, uuid: str) -> bool:
    """Delete a record; return whether it existed."""
    return await tx.execute(f"DELETE FROM {kind.plural} WHERE uuid = ?", (uuid,)) > 0


async def seal_all(tx: Transaction, kind: RecordType) -> None:
    """Encrypt the values of sealed columns that are still in clear."""
    for field in kind.columns:
        if not field.sealed:
            continue
        column = f"{kind.plural}.{field.name}"
        rows = await tx.fetch(
            f"SELECT uuid, {field.name} FROM {kind.plural}"
            # Values with the prefix are sealed already: the step can be repeated.
            f" WHERE {field.name} IS NOT NULL AND {field.name} NOT LIKE ?",
            (f"{MARK}%",),
        )
        for uuid, value in rows:
            if value == _encode(field, field.default):
                continue
            sealed = tx.seal.seal(str(value), column=column)
            await tx.execute(
                f"UPDATE {kind.plural} SET {field.name} = ? WHERE uuid = ?", (sealed, uuid)
            )


def equals(kind: RecordType, name: str, value: JSON) -> Expression:
    """The condition that a field equals a value."""
    return Compare(Column(name, kind.by_name[name].type), "=", value)
