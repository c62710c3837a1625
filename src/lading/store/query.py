"""From a checked expression tree to SQL. Values go into placeholders; names come from the record types only."""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

import json
from functools import singledispatchmethod

from lading.core.filters import (
    About,
    Among,
    Column,
    Compare,
    Constant,
    Either,
    Expression,
    Holds,
    IsKind,
    Key,
    KeyContains,
    KeyExists,
    Like,
    OfContainer,
    Order,
    Requested,
    Target,
)
from lading.core.schema import JSON
from lading.store.database import Dialect, Value


class Writer:
    """Writes conditions on one table and gathers their values."""

    def __init__(self, dialect: Dialect, table: str) -> None:
        self._dialect = dialect
        self._table = table
        self.values: list[Value] = []

    def where(self, parts: tuple[Expression, ...]) -> str:
        """` WHERE ...`, or nothing."""
        return " WHERE " + " AND ".join(f"({self.write(part)})" for part in parts) if parts else ""

    @singledispatchmethod
    def write(self, part: Expression) -> str:
        """One condition."""
        raise TypeError(f"not an expression: {part!r}")

    @write.register
    def _(self, part: Compare) -> str:
        if isinstance(part.target, Key):
            return self._compare_key(part.target, part.operator, part.value)
        name = self._name(part.target.name)
        if part.value is None:
            return f"{name} IS NULL" if part.operator == "=" else f"{name} IS NOT NULL"
        self.values.append(_bind(part.value))
        if part.operator == "!=":
            return f"{name} <> ? OR {name} IS NULL"
        return f"{name} {part.operator} ?"

    @write.register
    def _(self, part: Among) -> str:
        if isinstance(part.target, Key):
            found = self._key_among(part.target, part.values)
            return f"NOT ({found})" if part.negated else found
        name = self._name(part.target.name)
        self.values.append(json.dumps([_bind(value) for value in part.values]))
        listed = f"{name} IN (SELECT value FROM {self._dialect.each('?')})"
        if part.negated:
            return f"NOT ({listed}) AND {name} IS NOT NULL" if part.null else f"NOT ({listed}) OR {name} IS NULL"
        return f"{listed} OR {name} IS NULL" if part.null else listed

    @write.register
    def _(self, part: Like) -> str:
        if len(part.targets) == 1 and isinstance(part.targets[0], Key):
            return self._in_key(part.targets[0], f"e.type = 'text' AND {self._like('e.value', part)}", part.pattern)
        names = [f"coalesce({self._column(target)}, '')" for target in part.targets]
        text = " || ' ' || ".join(names) if len(names) > 1 else self._column(part.targets[0])
        self.values.append(part.pattern)
        return self._like(f"({text})", part)

    @write.register
    def _(self, part: IsKind) -> str:
        self.values.append(json.dumps(part.infixes))
        return f"substr({self._name(part.column)}, 7, 5) IN (SELECT value FROM {self._dialect.each('?')})"

    @write.register
    def _(self, part: Holds) -> str:
        name, conditions = self._name(part.column), []
        for wanted in part.names:
            self.values += [wanted, wanted]
            each = self._dialect.each(name)
            conditions.append(
                f"EXISTS (SELECT 1 FROM {each} e WHERE e.key = ? OR (typeof(e.key) = 'integer' AND e.value = ?))"
            )
        return " AND ".join(conditions)

    @write.register
    def _(self, part: KeyExists) -> str:
        found = self._in_key(part.key, "1 = 1")
        return found if part.wanted else f"NOT {found}"

    @write.register
    def _(self, part: KeyContains) -> str:
        self.values.append(part.key.key)
        equal = self._equals("e", part.value)
        element = self._equals("i", part.value)
        column = self._name(part.key.column)
        inner = f"e.type = 'array' AND EXISTS (SELECT 1 FROM {self._dialect.each('e.value')} i WHERE {element})"
        return f"EXISTS (SELECT 1 FROM {self._dialect.each(column)} e WHERE e.key = ? AND ({equal} OR ({inner})))"

    @write.register
    def _(self, part: Constant) -> str:
        return "1 = 1" if part.value else "1 = 0"

    @write.register
    def _(self, part: Either) -> str:
        return " OR ".join(f"({self.write(one)})" for one in part.parts)

    @write.register
    def _(self, part: OfContainer) -> str:
        inner = Writer(self._dialect, "containers")
        condition = inner.write(part.part)
        self.values += inner.values
        link = f"containers.uuid = {self._table}.container_uuid"
        return f"EXISTS (SELECT 1 FROM containers WHERE {link} AND ({condition}))"

    @write.register
    def _(self, part: Requested) -> str:
        self.values.append(part.owner_uuid)
        mine = "r.container_uuid = containers.uuid AND r.owner_uuid = ?"
        return f"EXISTS (SELECT 1 FROM container_requests r WHERE {mine})"

    @write.register
    def _(self, part: About) -> str:
        self.values += [part.owner_uuid] * 3
        mine = "r.container_uuid = logs.object_uuid AND r.owner_uuid = ?"
        direct = "logs.object_owner_uuid = ? OR logs.owner_uuid = ?"
        return f"{direct} OR EXISTS (SELECT 1 FROM container_requests r WHERE {mine})"

    def _name(self, column: str) -> str:
        return f"{self._table}.{column}"

    def _column(self, target: Target) -> str:
        return self._name(target.name if isinstance(target, Column) else target.column)

    def _like(self, text: str, part: Like) -> str:
        return self._dialect.like(text, fold=part.fold)

    def _in_key(self, key: Key, condition: str, *values: Value) -> str:
        self.values += [key.key, *values]
        each = self._dialect.each(self._name(key.column))
        return f"EXISTS (SELECT 1 FROM {each} e WHERE e.key = ? AND {condition})"

    def _key_is(self, key: Key, value: JSON) -> str:
        self.values.append(key.key)
        condition = self._equals("e", value)
        each = self._dialect.each(self._name(key.column))
        return f"EXISTS (SELECT 1 FROM {each} e WHERE e.key = ? AND {condition})"

    def _key_among(self, key: Key, wanted: tuple[JSON, ...]) -> str:
        lists: dict[str, list[JSON]] = {}
        singles: dict[str, None] = {}
        for value in wanted:
            match value:
                case None:
                    singles["e.type = 'null'"] = None
                case bool():
                    singles[f"e.type = '{'true' if value else 'false'}'"] = None
                case str():
                    lists.setdefault("e.type = 'text'", []).append(value)
                case int() | float():
                    lists.setdefault("e.type IN ('integer', 'real')", []).append(value)
                case _:
                    lists.setdefault("e.type IN ('object', 'array')", []).append(_compact(value))
        listed = f"e.value IN (SELECT value FROM {self._dialect.each('?')})"
        conditions = [*singles, *(f"{type} AND {listed}" for type in lists)]
        if not conditions:
            return "0 = 1"
        return self._in_key(key, f"({' OR '.join(conditions)})", *(json.dumps(values) for values in lists.values()))

    def _compare_key(self, key: Key, operator: str, value: JSON) -> str:
        if operator in ("=", "!="):
            found = self._key_is(key, value)
            return found if operator == "=" else f"NOT {found}"
        types = "e.type = 'text'" if isinstance(value, str) else "e.type IN ('integer', 'real')"
        return self._in_key(key, f"{types} AND e.value {operator} ?", _bind(value))

    def _equals(self, alias: str, value: JSON) -> str:
        match value:
            case None:
                return f"{alias}.type = 'null'"
            case bool():
                return f"{alias}.type = '{'true' if value else 'false'}'"
            case int() | float():
                self.values.append(value)
                return f"{alias}.type IN ('integer', 'real') AND {alias}.value = ?"
            case str():
                self.values.append(value)
                return f"{alias}.type = 'text' AND {alias}.value = ?"
        self.values.append(_compact(value))
        return f"{alias}.type IN ('object', 'array') AND {alias}.value = ?"


def order_by(order: tuple[Order, ...], table: str) -> str:
    """` ORDER BY ...`, or nothing."""
    keys = ", ".join(f"{table}.{one.column} {'DESC' if one.descending else 'ASC'}" for one in order)
    return f" ORDER BY {keys}" if keys else ""


def _compact(value: JSON) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bind(value: JSON) -> Value:
    return int(value) if isinstance(value, bool) else value
