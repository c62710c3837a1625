"""Translates a checked expression tree to SQL.

Values go into placeholders; names come from the record types only.
"""

# ruff: noqa: S608 - names come from the record types, values go into placeholders

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lading.core.image_names import IMAGE_HASH, REPO_TAG
from lading.core.records.expressions import (
    All,
    Among,
    AmongFound,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Either,
    Expression,
    Holds,
    IsKind,
    KeyContains,
    KeyExists,
    Like,
    Not,
    OfContainer,
    OfRequest,
    Outside,
    PropertyKey,
    Query,
    SortKey,
    Target,
)
from lading.core.records.permissions import (
    HEADS,
    About,
    Accessible,
    FormerPlace,
    Inside,
    ManagedHead,
    NamesImage,
    Present,
    Reachable,
    Requested,
    Unfrozen,
    Untrashed,
)
from lading.core.records.record_types import GROUPS, RECORDS, TOKENS, USERS
from lading.core.records.schema import JSON, Type
from lading.core.records.service_records import WEBHOOKS
from lading.store import log_rows
from lading.store.database import Dialect, Value
from lading.store.permissions import reached, reaches

# States of nearly all requests and containers: an index look-up by these is slow.
_ENDED: Final = frozenset({"Final", "Complete", "Cancelled"})
# Texts of a list that are written as placeholders; a longer list is one JSON text.
_FEW: Final = 256
# Partial indexes leave out rows where one of their columns is null. Planners use them only if the
# condition names these columns: the first column of an index -> its columns that are never null.
_NEVER_NULL: Final = {
    (kind.plural, first): [
        field.name for field in kind.columns if field.name in more and field.default
    ]
    for kind in RECORDS
    for first, *more in kind.sparse
}
# Nested fields with keys whose true values have an index.
_TRUE_KEYS: Final = frozenset(
    (kind.plural, index.column, index.key) for kind in RECORDS for index in kind.key_indexes
)
_NUMBERS = (Type.INTEGER, Type.FLOAT, Type.BOOLEAN)
_RANGES: Final = ("<", "<=", ">", ">=")


class ConditionWriter:
    """Writes SQL conditions on one table, or on an alias of it, and collects their values."""

    def __init__(self, dialect: Dialect, table: str) -> None:
        self._dialect = dialect
        self._table = table
        self.values: list[Value] = []

    def where(self, terms: tuple[Expression, ...]) -> str:
        """` WHERE ...`, or ""."""
        return " WHERE " + " AND ".join(f"({self.write(term)})" for term in terms) if terms else ""

    def write(self, term: Expression) -> str:
        """One condition."""
        write = _WRITERS.get(type(term))
        if write is None:
            raise TypeError(f"not an expression: {term!r}")
        return write(self, term)

    def _compare(self, term: Compare) -> str:
        if isinstance(term.target, PropertyKey):
            return self._compare_key(term.target, term.operator, term.value)
        name = self._name(term.target.name)
        if term.value is None:
            return f"{name} IS NULL" if term.operator == "=" else f"{name} IS NOT NULL"
        self.values.append(_bind(term.value))
        if term.operator == "!=":
            # SQL compares null with anything to null; in the API a missing value differs from each
            # value.
            return f"{name} <> ? OR {name} IS NULL"
        if term.target.name == "state" and term.value in _ENDED:
            return _held_by_many(f"{name} {term.operator} ?")
        return f"{name} {term.operator} ?{self._indexed(term.target.name)}"

    def _among(self, term: Among) -> str:
        if isinstance(term.target, PropertyKey):
            membership = self._key_among(term.target, term.values)
            return f"NOT ({membership})" if term.negated else membership
        name = self._name(term.target.name)
        listed = f"{name} IN ({self._placeholders(term)})"
        if term.target.name == "state" and not _ENDED.isdisjoint(term.values):
            listed = _held_by_many(listed)
        # `not in` includes nulls unless null is in the list.
        if term.negated:
            return (
                f"NOT ({listed}) AND {name} IS NOT NULL"
                if term.null
                else f"NOT ({listed}) OR {name} IS NULL"
            )
        return (
            f"{listed} OR {name} IS NULL" if term.null else listed + self._indexed(term.target.name)
        )

    def _indexed(self, column: str) -> str:
        """Condition that lets planners use the partial index that begins with a column."""
        never_null = _NEVER_NULL.get((self._table, column), ())
        return "".join(f" AND {self._name(name)} IS NOT NULL" for name in never_null)

    def _placeholders(self, term: Among) -> str:
        """Placeholders for a list: texts one by one, so that the planner knows their number; other
        values as JSON.
        """
        numbers = isinstance(term.target, Column) and term.target.type in _NUMBERS
        if (
            0 < len(term.values) <= _FEW
            and not numbers
            and all(isinstance(value, str) for value in term.values)
        ):
            # Padded to a few sizes, so that statements repeat and are cached.
            size = 1 << (len(term.values) - 1).bit_length()
            self.values += [*term.values, *[term.values[-1]] * (size - len(term.values))]
            return ", ".join("?" * size)
        self.values.append(json.dumps([_bind(value) for value in term.values]))
        return self._listed(number=numbers)

    def _like(self, term: Like) -> str:
        if len(term.targets) == 1 and isinstance(term.targets[0], PropertyKey):
            value = self._dialect.value("e", number=False)
            return self._in_key(
                term.targets[0], f"e.type = 'text' AND {self._matches(value, term)}", term.pattern
            )
        names = [f"coalesce({self._column(target)}, '')" for target in term.targets]
        value = " || ' ' || ".join(names) if len(names) > 1 else self._column(term.targets[0])
        self.values.append(term.pattern)
        return self._matches(f"({value})", term)

    def _is_kind(self, term: IsKind) -> str:
        self.values.append(json.dumps(term.infixes))
        return f"substr({self._name(term.column)}, 7, 5) IN ({self._listed(number=False)})"

    def _holds(self, term: Holds) -> str:
        name, conditions = self._name(term.column), []
        for key in term.names:
            # Keys of an object, or elements of a list: "$[0]" is the path of an element.
            self.values += [key, key]
            each, text = self._dialect.each(name), "e.type = 'text' AND e.value"
            conditions.append(
                f"EXISTS (SELECT 1 FROM {each} e"
                f" WHERE e.key = ? OR (e.fullkey LIKE '$[%' AND {text} = ?))"
            )
        return " AND ".join(conditions)

    def _key_exists(self, term: KeyExists) -> str:
        exists = self._in_key(term.key, "1 = 1")
        return exists if term.exists else f"NOT {exists}"

    def _key_contains(self, term: KeyContains) -> str:
        self.values.append(term.key.key)
        equal = self._equals("e", term.value)
        element = self._equals("i", term.value)
        column = self._name(term.key.column)
        # Not every database stops at the first false condition, and only lists may be expanded.
        each = self._dialect.each("CASE WHEN e.type = 'array' THEN e.value END")
        inner = f"EXISTS (SELECT 1 FROM {each} i WHERE {element})"
        return (
            f"EXISTS (SELECT 1 FROM {self._dialect.each(column)} e"
            f" WHERE e.key = ? AND (({equal}) OR {inner}))"
        )

    def _compare_columns(self, term: CompareColumns) -> str:
        left, right = self._name(term.left.name), self._name(term.right.name)
        if term.operator == "!=":
            return f"{left} <> {right} OR (({left} IS NULL) <> ({right} IS NULL))"
        return f"{left} {term.operator} {right}"

    def _constant(self, term: Constant) -> str:
        return "1 = 1" if term.value else "1 = 0"

    def _either(self, term: Either) -> str:
        return " OR ".join(f"({self.write(alternative)})" for alternative in term.parts)

    def _of_container(self, term: OfContainer) -> str:
        # Its values come after those of conditions written before: placeholders are numbered by
        # position.
        inner = ConditionWriter(self._dialect, "containers")
        sql = inner.write(term.condition)
        self.values += inner.values
        link = f"containers.uuid = {self._table}.container_uuid"
        return f"EXISTS (SELECT 1 FROM containers WHERE {link} AND ({sql}))"

    def _of_request(self, term: OfRequest) -> str:
        inner = ConditionWriter(self._dialect, "container_requests")
        sql = inner.write(term.condition)
        self.values += inner.values
        link = f"container_requests.container_uuid = {self._table}.uuid"
        return f"EXISTS (SELECT 1 FROM container_requests WHERE {link} AND ({sql}))"

    def _among_found(self, term: AmongFound) -> str:
        queries = []
        for branch in term.parts:
            inner = ConditionWriter(self._dialect, term.plural)
            queries.append(f"SELECT {term.named} FROM {term.plural} WHERE {inner.write(branch)}")
            self.values += inner.values
        return f"{self._name(term.column)} IN ({' UNION '.join(queries)})"

    def _outside(self, term: Outside) -> str:
        return f"({self.write(term.condition)}) IS NOT TRUE"

    def _all(self, term: All) -> str:
        return " AND ".join(f"({self.write(conjunct)})" for conjunct in term.parts)

    def _not(self, term: Not) -> str:
        return f"NOT ({self.write(term.condition)})"

    def _requested(self, term: Requested) -> str:
        return self._through_requests(self._name("uuid"), term.user_uuid, term.now)

    def _about(self, term: About) -> str:
        user = term.user_uuid
        self.values += [user] * 6
        kind = "substr(logs.object_uuid, 7, 5)"
        apart = f"'{WEBHOOKS.infix}', '{TOKENS.infix}'"
        shared = (
            "EXISTS (SELECT 1 FROM links l JOIN memberships m ON m.subject_uuid = l.tail_uuid"
            " WHERE m.user_uuid = ? AND l.head_uuid = logs.object_uuid"
            " AND l.link_class = 'permission' AND l.created_at <= logs.created_at)"
        )
        conditions = (
            "logs.object_owner_uuid = ?",
            "logs.owner_uuid = ?",
            "logs.object_uuid = ?",
            f"{kind} NOT IN ({apart}) AND {reaches('logs.object_owner_uuid', 1, owning=True)}",
            f"{kind} = '{WEBHOOKS.infix}' AND {reaches('logs.object_owner_uuid', 3, owning=True)}",
            # Rows of other users have fields that not everybody may see.
            f"{kind} <> '{USERS.infix}' AND {shared}",
            self._through_requests("logs.object_uuid", user, term.now),
        )
        return " OR ".join(f"({alternative})" for alternative in conditions)

    def _former_place(self, term: FormerPlace) -> str:
        self.values += [term.user_uuid] * 2
        former = "logs.former_owner_uuid"
        return f"{former} IS NULL OR {former} = ? OR {reaches(former, 1, owning=True)}"

    def _reachable(self, term: Reachable) -> str:
        self.values.append(term.user_uuid)
        return reaches(self._name(term.column), term.level, owning=term.owning)

    def _accessible(self, term: Accessible) -> str:
        if term.dense and term.owners is None:
            # Of a page in its order few rows are looked at, but the user may have any number of
            # projects: each run of a pipeline is one.
            self.values.append(term.user_uuid)
            owned = reaches(self._name("owner_uuid"), 1, owning=True)
        else:
            owned = self._among_reached("owner_uuid", term.owners, term.user_uuid, owning=True)
        shared = self._among_reached("uuid", term.shared, term.user_uuid, owning=False)
        either = f"{owned} OR {shared}" if shared else owned
        return _held_by_many(either) if term.dense else either

    def _managed_head(self, term: ManagedHead) -> str:
        self.values.append(term.user_uuid)
        conditions = [reaches("links.head_uuid", 3)]
        for kind in RECORDS:
            if kind.infix in HEADS and kind.infix not in (USERS.infix, GROUPS.infix):
                self.values.append(term.user_uuid)
                owner = reaches("o.owner_uuid", 3, owning=True)
                conditions.append(
                    f"EXISTS (SELECT 1 FROM {kind.plural} o"
                    f" WHERE o.uuid = links.head_uuid AND {owner})"
                )
        return " OR ".join(conditions)

    def _names_image(self, term: NamesImage) -> str:
        self.values += [REPO_TAG, IMAGE_HASH, term.user_uuid, term.user_uuid]
        readable = f"{reaches('c.owner_uuid', 1, owning=True)} OR {reaches('c.uuid', 1)}"
        maker = "links.modified_by_user_uuid"
        may_change = (
            f"{reaches('c.owner_uuid', 2, owning=True, user=maker)}"
            f" OR {reaches('c.uuid', 2, user=maker)}"
            f" OR EXISTS (SELECT 1 FROM users u WHERE u.uuid = {maker} AND u.is_admin = 1)"
        )
        return (
            "links.link_class IN (?, ?) AND EXISTS (SELECT 1 FROM collections c"
            f" WHERE c.uuid = links.head_uuid AND ({readable}) AND ({may_change}))"
        )

    def _untrashed(self, term: Untrashed) -> str:
        # A subquery over groups in the trash, of which there are few, instead of one per row.
        self.values.append(term.now)
        frozen = " AND s.frozen = 1" if term.frozen else ""
        return (
            f"{self._name(term.column)} NOT IN"
            f" (SELECT s.uuid FROM group_standing s WHERE s.trash_at <= ?{frozen})"
        )

    def _unfrozen(self, term: Unfrozen) -> str:
        frozen = "SELECT s.uuid FROM group_standing s WHERE s.frozen = 1"
        return f"{self._name(term.column)} NOT IN ({frozen})"

    def _present(self, term: Present) -> str:  # noqa: ARG002 (decided by the type alone)
        return f"{self._name('current_version_uuid')} = {self._name('uuid')}"

    def _inside(self, term: Inside) -> str:
        name = self._name(term.column)
        self.values.append(term.owner_uuid)
        if not term.deep:
            return f"{name} = ?"
        self.values.append(term.owner_uuid)
        return (
            # UNION leaves out duplicates, so that even a circle of owners ends.
            f"{name} = ? OR {name} IN (WITH RECURSIVE inside (uuid) AS"
            " (SELECT g.uuid FROM groups g WHERE g.owner_uuid = ?"
            " UNION SELECT g.uuid FROM groups g JOIN inside ON g.owner_uuid = inside.uuid)"
            " SELECT uuid FROM inside)"
        )

    def _among_reached(
        self, column: str, reached_uuids: tuple[str, ...] | None, user: str, *, owning: bool
    ) -> str:
        name = self._name(column)
        if reached_uuids is None:
            self.values.append(user)
            return f"{name} IN ({reached(owning=owning)})"
        self.values += reached_uuids
        # The user has no single shared records: this part of the condition is left out.
        if not reached_uuids and not owning:
            return ""
        if len(reached_uuids) == 1:
            return f"{name} = ?"
        return f"{name} IN ({', '.join('?' for _ in reached_uuids)})" if reached_uuids else "1 = 0"

    def _through_requests(self, container: str, user: str, now: str) -> str:
        self.values += [user, user, user, now]
        readable = (
            f"r.owner_uuid = ? OR {reaches('r.owner_uuid', 1, owning=True)}"
            f" OR {reaches('r.uuid', 1)}"
        )
        trashed = "SELECT s.uuid FROM group_standing s WHERE s.trash_at <= ?"
        return (
            "EXISTS (SELECT 1 FROM container_requests r"
            f" WHERE r.container_uuid = {container} AND ({readable})"
            f" AND r.owner_uuid NOT IN ({trashed}))"
        )

    def _name(self, column: str) -> str:
        return _expression(self._table, column)

    def _column(self, target: Target) -> str:
        return self._name(target.name if isinstance(target, Column) else target.column)

    def _listed(self, *, number: bool) -> str:
        """The values of the JSON list in the next placeholder."""
        return f"SELECT {self._dialect.value('v', number=number)} FROM {self._dialect.each('?')} v"

    def _matches(self, expression: str, term: Like) -> str:
        return self._dialect.like(expression, fold=term.fold)

    def _in_key(self, key: PropertyKey, term: str, *values: Value) -> str:
        self.values += [key.key, *values]
        each = self._dialect.each(self._name(key.column))
        return f"EXISTS (SELECT 1 FROM {each} e WHERE e.key = ? AND {term})"

    def _key_is(self, key: PropertyKey, value: JSON) -> str:
        self.values.append(key.key)
        condition = self._equals("e", value)
        each = self._dialect.each(self._name(key.column))
        return f"EXISTS (SELECT 1 FROM {each} e WHERE e.key = ? AND {condition})"

    def _key_among(self, key: PropertyKey, values: tuple[JSON, ...]) -> str:
        # Values by type: JSON values of different types are never equal, and columns are compared
        # once for each type.
        lists: dict[str, list[JSON]] = {}
        singles: dict[str, None] = {}
        for value in values:
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
        conditions = list(singles)
        for type in lists:
            number = "real" in type
            conditions.append(
                f"{type} AND {self._dialect.value('e', number=number)}"
                f" IN ({self._listed(number=number)})"
            )
        if not conditions:
            return "0 = 1"
        return self._in_key(
            key, f"({' OR '.join(conditions)})", *(json.dumps(values) for values in lists.values())
        )

    def _compare_key(self, key: PropertyKey, operator: str, value: JSON) -> str:
        if operator in ("=", "!="):
            equal = self._key_is(key, value)
            if (
                operator == "="
                and value is True
                and (self._table, key.column, key.key) in _TRUE_KEYS
            ):
                # Planners use the partial index of a condition that the statement repeats.
                equal += f" AND {may_be_true(self._name(key.column), key.key)}"
            return equal if operator == "=" else f"NOT {equal}"
        # Numbers are compared with numbers and texts with texts; all other types never match.
        number = not isinstance(value, str)
        types = "e.type IN ('integer', 'real')" if number else "e.type = 'text'"
        return self._in_key(
            key, f"{types} AND {self._dialect.value('e', number=number)} {operator} ?", _bind(value)
        )

    def _equals(self, alias: str, value: JSON) -> str:
        match value:
            case None:
                return f"{alias}.type = 'null'"
            case bool():
                return f"{alias}.type = '{'true' if value else 'false'}'"
            case int() | float():
                self.values.append(value)
                return (
                    f"{alias}.type IN ('integer', 'real')"
                    f" AND {self._dialect.value(alias, number=True)} = ?"
                )
            case str():
                self.values.append(value)
                return f"{alias}.type = 'text' AND {alias}.value = ?"
        self.values.append(_compact(value))
        return f"{alias}.type IN ('object', 'array') AND {alias}.value = ?"


def alias_condition(
    dialect: Dialect, alias: str, parts: Sequence[Expression]
) -> tuple[str, list[Value]]:
    """` AND ...` for conditions on a table or an alias of it, or "", and the values."""
    writer = ConditionWriter(dialect, alias)
    return "".join(f" AND ({writer.write(condition)})" for condition in parts), writer.values


def may_be_true(column: str, key: str) -> str:
    """SQL condition that all rows meet in whose nested column a key is true, and few others: those
    that have such a key elsewhere in the column. Nested values are stored without spaces.
    """
    # Of a comparison with a constant PostgreSQL expects that few rows meet it, so it takes the
    # index.
    without = f"replace({column}, '\"{key}\":true', '')"
    return f"CASE WHEN {without} = {column} THEN 0 ELSE 1 END = 1"


def _expression(table: str, column: str) -> str:
    """SQL expression of a column for conditions and orders."""
    if log_rows.is_computed(table, column):
        return log_rows.expression(column)
    return f"{table}.{column}"


def order_by(dialect: Dialect, order: tuple[SortKey, ...], table: str) -> str:
    """` ORDER BY ...`, or "". Keys after a uuid or a number are left out: these are unique."""
    # The primary key alone. It is never null; with the order of nulls that other keys have,
    # PostgreSQL would sort all rows.
    names = [key.column for key in order]
    if names[:1] in (["uuid"], ["id"]):
        return f" ORDER BY {table}.{names[0]}{' DESC' if order[0].descending else ''}"
    order = order[: names.index("uuid") + 1] if "uuid" in names else order
    keys = ", ".join(
        dialect.order(_expression(table, key.column), descending=key.descending) for key in order
    )
    return f" ORDER BY {keys}" if keys else ""


def page_statement(
    dialect: Dialect, plural: str, query: Query, selected: str
) -> tuple[str, list[Value]]:
    """The statement for a page of records, with its values; `selected` are SQL expressions."""
    writer = ConditionWriter(dialect, plural)
    order = order_by(dialect, query.order, plural)
    if log_rows.is_about_objects(plural, query):
        order = order.replace(f"{plural}.id", dialect.number_apart.format(plural))
    sql = f"SELECT {selected} FROM {plural}{writer.where(query.where)}{order}"
    if dialect.literal_limits and _is_walk(query):
        return f"{sql} LIMIT {int(query.limit)}", writer.values
    return f"{sql} LIMIT ? OFFSET ?", [*writer.values, query.limit, query.offset]


def _is_walk(query: Query) -> bool:
    """Whether the best plan for all values is a walk along the order, from its beginning or from a
    key. For any other query, a plan that is made once for all values may be bad.
    """
    key = query.order[0].column if query.order else ""
    return not query.offset and all(
        isinstance(term, Untrashed)
        or (isinstance(term, Accessible) and term.dense)
        or (isinstance(term, Compare) and term.operator in _RANGES and _is_column(term.target, key))
        for term in query.where
    )


def _is_column(target: Target, name: str) -> bool:
    return isinstance(target, Column) and target.name == name


def _held_by_many(condition: str) -> str:
    """The condition in a form without an index; planners estimate that half of all rows meet it."""
    return f"CASE WHEN {condition} THEN TRUE ELSE FALSE END"


def _compact(value: JSON) -> str:
    # The form in which nested values are stored, so that texts can be compared.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bind(value: JSON) -> Value:
    return int(value) if isinstance(value, bool) else value


_WRITERS: Final[Mapping[type, Callable[[ConditionWriter, Any], str]]] = {
    Compare: ConditionWriter._compare,
    Among: ConditionWriter._among,
    Like: ConditionWriter._like,
    IsKind: ConditionWriter._is_kind,
    Holds: ConditionWriter._holds,
    KeyExists: ConditionWriter._key_exists,
    KeyContains: ConditionWriter._key_contains,
    CompareColumns: ConditionWriter._compare_columns,
    Constant: ConditionWriter._constant,
    Either: ConditionWriter._either,
    OfContainer: ConditionWriter._of_container,
    OfRequest: ConditionWriter._of_request,
    AmongFound: ConditionWriter._among_found,
    All: ConditionWriter._all,
    Not: ConditionWriter._not,
    Outside: ConditionWriter._outside,
    Requested: ConditionWriter._requested,
    About: ConditionWriter._about,
    FormerPlace: ConditionWriter._former_place,
    Reachable: ConditionWriter._reachable,
    Accessible: ConditionWriter._accessible,
    ManagedHead: ConditionWriter._managed_head,
    NamesImage: ConditionWriter._names_image,
    Untrashed: ConditionWriter._untrashed,
    Unfrozen: ConditionWriter._unfrozen,
    Present: ConditionWriter._present,
    Inside: ConditionWriter._inside,
}
