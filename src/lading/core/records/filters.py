"""The list-query language: parses and checks a client's parameters into an expression tree (see
`expressions`).

Every triple is checked against the record type before the database is used. A fault is `Invalid`
(422) naming the attribute or operator. Source: docs/spec/api, sections Lists, Filters and Order and
select.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lading.core.errors import Invalid
from lading.core.records.attributes import (
    MAX_INTEGER,
    parse_boolean,
    parse_list,
    parse_operand,
    parse_pattern,
    parse_text,
    shorten,
)
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    Among,
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
    OfContainer,
    PropertyKey,
    Query,
    SortKey,
)
from lading.core.records.record_types import BY_PLURAL, COLLECTIONS, KINDS, LINKS, WORKFLOWS
from lading.core.records.schema import JSON, Field, RecordType, Type
from lading.core.values import printable

MAX_CONDITIONS: Final = 200
"""Maximum number of conditions of one list call; more would be slow to plan for the database."""

# `(column operator column)`.
_COLUMNS: Final = re.compile(r"\(\s*([\w.]+)\s*(<=|>=|<>|!=|=|<|>)\s*([\w.]+)\s*\)")
_Check: TypeAlias = Callable[[Field, str, JSON], Expression]


def check_query(params: Mapping[str, JSON], kind: RecordType, *, max_limit: int) -> Query:
    """The query for the parameters of a list call. Raises Invalid."""
    select = check_select(params.get("select"), kind)
    count = params.get("count")
    if count not in (None, "exact", "none"):
        raise Invalid(f"count: {count!r} is neither 'exact' nor 'none'")
    limit = check_number(params, "limit", 100)
    distinct = bool(params.get("distinct")) and select is not None
    if distinct and select is not None:
        _check_distinct(select, kind)
    include = check_include(params.get("include"), kind)
    if distinct and include:
        raise Invalid(
            "include: rows that are made distinct name no records; leave out one of the two"
        )
    return Query(
        where=check_filters(params.get("filters"), kind) + check_where(params.get("where"), kind),
        order=check_order(params.get("order"), kind, plain=distinct),
        select=select,
        limit=min(limit, max_limit),
        offset=check_number(params, "offset", 0),
        distinct=distinct,
        count=count != "none",
        include=include,
    )


def check_include(include: JSON, kind: RecordType) -> tuple[str, ...]:
    """Fields whose records a list returns as well: an array, or names separated by commas. Raises
    Invalid.
    """
    entries = (
        [entry.strip() for entry in include.split(",")]
        if isinstance(include, str)
        else include or []
    )
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise Invalid('include: must be an array such as ["owner_uuid"]')
    for name in entries:
        field = kind.by_name.get(name)
        if field is None or not field.stored or field.hidden or not name.endswith("_uuid"):
            raise Invalid(f"include: '{name}' is no attribute of {kind.schema} that names a record")
    return tuple(dict.fromkeys(entries))


def check_number(params: Mapping[str, JSON], name: str, default: int) -> int:
    """A parameter that must be an integer of at least 0. Raises Invalid."""
    value = params.get(name)
    if value is None:
        return default
    # Parameters of a query string are texts. 18 digits are in the range of 64-bit integers.
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid(f"{name}: {value!r} is not a whole number from 0 up")
    return min(value, MAX_INTEGER)


def check_select(select: JSON, kind: RecordType) -> tuple[str, ...] | None:
    """The fields to return, each once; None when the client did not choose. Raises Invalid."""
    if select is None:
        return None
    if not isinstance(select, list) or not select:
        raise Invalid("select: must be an array of at least one attribute name")
    names: dict[str, None] = {}
    for entry in select:
        name = entry.removeprefix(f"{kind.plural}.") if isinstance(entry, str) else entry
        field = kind.by_name.get(name) if isinstance(name, str) else None
        if field is None or field.hidden:
            raise Invalid(f"Invalid attribute '{entry}' of {kind.schema} in select parameter")
        names[field.name] = None
    return tuple(names)


def _check_distinct(select: tuple[str, ...], kind: RecordType) -> None:
    for name in select:
        if not kind.by_name[name].stored:
            raise Invalid(
                f"distinct: '{name}' is computed, so that rows cannot be made distinct by it; "
                "leave it out"
            )


def order_entries(order: JSON) -> list[str]:
    """The entries of an order, `[TABLE.]ATTRIBUTE [asc|desc]` each. Raises Invalid when it is no
    array of texts.
    """
    entries = order.split(",") if isinstance(order, str) else order or []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise Invalid('order: must be an array such as ["created_at desc"]')
    return [str(entry) for entry in entries if str(entry).strip()]


def check_order(order: JSON, kind: RecordType, *, plain: bool = False) -> tuple[SortKey, ...]:
    """Sort keys. Attributes that rows are not sorted by, and repetitions, are dropped; a tie-break
    is added unless `plain`.

    Raises Invalid when `order` is no array of texts, or names no attribute.
    """
    keys: dict[str, SortKey] = {}
    for entry in order_entries(order):
        if (key := _sort_key(entry, kind)) is not None:
            keys.setdefault(key.column, key)
    # Without a total order the pages of a list could overlap.
    if not plain:
        for name in ("id",) if kind.numbered else ("modified_at", "uuid"):
            keys.setdefault(name, SortKey(name, descending=True))
    return tuple(keys.values())


def _sort_key(entry: str, kind: RecordType) -> SortKey | None:
    """The sort key of `[TABLE.]ATTRIBUTE [asc|desc]`; None for one that rows are not sorted by.
    Raises Invalid for an entry of another form, and for an attribute that there is not.
    """
    match = re.fullmatch(r"\s*(?:(\w+)\.)?(\w+)(?:\s+(asc|desc))?\s*", entry, re.IGNORECASE)
    if match is None:
        raise Invalid(
            f"order: {printable(entry)} is not an attribute with 'asc' or 'desc' after it"
        )
    # Clients send one order for several tables.
    if match[1] not in (None, kind.plural) and match[1] in BY_PLURAL:
        return None
    if match[1] not in (None, kind.plural):
        raise Invalid(f"order: '{match[1][:60]}': no such table")
    found = kind.by_name.get(match[2])
    if found is None or found.hidden:
        raise Invalid(f"order: '{match[2][:60]}': no such attribute of {kind.plural}")
    if not found.stored or found.nested:
        return None
    return SortKey(found.name, (match[3] or "").lower() == "desc")


def check_where(where: JSON, kind: RecordType) -> tuple[Expression, ...]:
    """The older form of filters: {attribute: value | [values] | ["contains", text] | {key: value}}.

    Raises Invalid.
    """
    if where is None:
        return ()
    if not isinstance(where, dict):
        raise Invalid("where: must be an object of attributes and values")
    triples: list[JSON] = []
    for name, value in where.items():
        if isinstance(value, list) and value[:1] == ["contains"] and len(value) == 2:
            triples.append([name, "ilike", f"%{_literal(value[1])}%"])
        elif isinstance(value, dict):
            triples += [[f"{name}.{key}", "=", operand] for key, operand in value.items()]
        else:
            triples.append([name, "in" if isinstance(value, list) else "=", value])
    return check_filters(triples, kind)


def _literal(value: JSON) -> str:
    """A text as a pattern that matches this text only."""
    return re.sub(r"([\\%_])", r"\\\1", str(value))


def check_filters(filters: JSON, kind: RecordType) -> tuple[Expression, ...]:
    """Expressions that must all hold. Raises Invalid naming the attribute or operator."""
    if filters is None:
        return ()
    if not isinstance(filters, list):
        raise Invalid("filters: must be an array of [attribute, operator, operand]")
    if sum(_weight(triple) for triple in filters) > MAX_CONDITIONS:
        raise Invalid(
            f"filters: more than {MAX_CONDITIONS} conditions; "
            "to look for many values use 'in' with an array"
        )
    return tuple(_triple(triple, kind) for triple in filters)


def _weight(entry: JSON) -> int:
    """Number of conditions of a filter: one for each attribute, and for each name that must be
    contained.
    """
    if not isinstance(entry, list) or len(entry) != 3:
        return 1
    attribute, operator, operand = entry
    # Each name becomes a condition of its own in SQL; the values of "in" are one condition.
    is_set = isinstance(operand, list) and str(operator).strip().lower() == "contains"
    attributes = len(attribute) if isinstance(attribute, list) else 1
    return attributes * (len(operand) if is_set else 1)


def _parts(entry: JSON) -> tuple[JSON, str, JSON]:
    """Attribute, operator in lower case, and operand of a filter."""
    # Clients may send a comparison of columns as a bare string.
    if isinstance(entry, str) and entry.startswith("("):
        return entry, "=", True
    if not isinstance(entry, list) or len(entry) != 3:
        raise Invalid(f"Invalid filter {shorten(entry)}: must be [attribute, operator, operand]")
    attribute, operator, operand = entry
    if not isinstance(operator, str):
        raise Invalid(f"Invalid operator {shorten(operator)} in filter: must be a string")
    return attribute, operator.lower().strip(), operand


def _triple(entry: JSON, kind: RecordType) -> Expression:
    attribute, operator, operand = _parts(entry)
    # No attribute has one (`attributes.parse`), and SQLite ends a pattern at it.
    if any(_has_nul(value) for value in (attribute, operand)):
        raise Invalid(f"Invalid filter {shorten(entry)}: must not contain a NUL character")
    if isinstance(attribute, str) and attribute.lstrip().startswith("("):
        return _columns(attribute, operator, operand, kind)
    if operator == "@@":
        raise Invalid("Full text search operator is no longer supported: use ilike")
    if operator not in {*_OPERATORS, "is_a"}:
        raise Invalid(f"Invalid operator '{operator}' in filter")
    if isinstance(attribute, list):
        if not attribute:
            raise Invalid("Invalid attribute [] in filter: name at least one")
        return Either(tuple(_parse_condition(name, operator, operand, kind) for name in attribute))
    return _parse_condition(attribute, operator, operand, kind)


def _has_nul(value: JSON) -> bool:
    some = value if isinstance(value, list) else (value,)
    return any(isinstance(item, str) and "\0" in item for item in some)


def _columns(attribute: str, operator: str, operand: JSON, kind: RecordType) -> Expression:
    """Comparison of two columns: `(started_at < finished_at)`."""
    match = _COLUMNS.fullmatch(attribute.strip())
    if match is None or operator != "=" or operand is not True:
        raise Invalid(
            f"Invalid filter {shorten([attribute, operator, operand])}: "
            "must be '(attribute < attribute)' = true"
        )
    left, right = (
        _stored(name.removeprefix(f"{kind.plural}."), kind, name, plain=True)
        for name in (match[1], match[3])
    )
    if left.type is not right.type:
        raise Invalid(
            f"Invalid filter '{attribute[:80]}': {left.name} and {right.name} are of different"
            " types"
        )
    sign = "!=" if match[2] == "<>" else match[2]
    return CompareColumns(Column(left.name, left.type), sign, Column(right.name, right.type))


def _stored(name: str, kind: RecordType, attribute: str, *, plain: bool = False) -> Field:
    found = kind.by_name.get(name)
    # A hidden attribute is refused like an unknown one: a filter on a secret would find it out bit
    # by bit.
    if found is None or found.hidden or not found.stored or (plain and found.nested):
        raise Invalid(f"Invalid attribute '{attribute}' in filter")
    return found


def _parse_condition(attribute: JSON, operator: str, operand: JSON, kind: RecordType) -> Expression:
    if not isinstance(attribute, str):
        raise Invalid(f"Invalid attribute {shorten(attribute)} in filter: must be a string")
    name = attribute.removeprefix(f"{kind.plural}.")
    if kind is REQUESTS and name.startswith("container."):
        # `access.check_filters` decides later whether the token may ask about containers.
        return OfContainer(
            _parse_condition(name[len("container.") :], operator, operand, CONTAINERS)
        )
    if kind is WORKFLOWS and name.startswith("collection."):
        # Checked as a filter on collections, though no workflow has a collection here.
        _parse_condition(name[len("collection.") :], operator, operand, COLLECTIONS)
        return Constant(False)
    if name == "any":
        return _any(operator, operand, kind)
    if kind is LINKS and name in ("head_kind", "tail_kind"):
        return _end_kind(name, operator, operand, kind)
    top, dot, key = name.partition(".")
    field = _stored(top, kind, attribute)
    if dot:
        if field.type is not Type.OBJECT:
            raise Invalid(f"Invalid attribute '{attribute}' in filter: {top} has no sub-properties")
        # Keys may be written in angle brackets, as for JSON-LD properties.
        return _key(
            PropertyKey(top, key.removeprefix("<").removesuffix(">")), operator, operand, attribute
        )
    if operator == "is_a":
        return _is_a(field, operand, kind)
    return _OPERATORS[operator](field, operator, operand)


def _end_kind(name: str, operator: str, operand: JSON, kind: RecordType) -> Expression:
    """Condition on the kind of an end of a link, which follows from its uuid and is no column."""
    if operator not in ("=", "in", "is_a"):
        raise Invalid(
            f"Invalid operator '{operator}' for attribute '{name}': must be =, in or is_a"
        )
    return _is_a(kind.by_name[name.replace("kind", "uuid")], operand, kind)


def _any(operator: str, operand: JSON, kind: RecordType) -> Expression:
    texts = tuple(
        Column(column.name, column.type)
        for column in kind.columns
        if column.type is Type.STRING and not column.hidden
    )
    if operator in ("like", "ilike"):
        return Like(texts, parse_pattern(operand, "any", operator), operator == "ilike")
    if operator in ("=", "in"):
        values = parse_list(operand, "any") if operator == "in" else [operand]
        operands = tuple(parse_text(value, "any", operator) for value in values)
        return Either(tuple(Among(column, operands) for column in texts))
    raise Invalid(f"Invalid operator '{operator}' for attribute 'any'")


def _equal(field: Field, operator: str, operand: JSON) -> Expression:
    operator = "!=" if operator == "<>" else operator
    return Compare(
        Column(field.name, field.type),
        operator,
        None if operand is None else parse_operand(field, operand),
    )


def _range(field: Field, operator: str, operand: JSON) -> Expression:
    if field.nested or field.type is Type.BOOLEAN:
        raise Invalid(f"Invalid operator '{operator}' for {field.type} attribute '{field.name}'")
    if operand is None:
        raise Invalid(f"Invalid operand type 'null' for '{operator}' in filter on '{field.name}'")
    return Compare(Column(field.name, field.type), operator, parse_operand(field, operand))


def _like(field: Field, operator: str, operand: JSON) -> Expression:
    if field.type not in (Type.STRING, Type.TIME):
        raise Invalid(f"Invalid operator '{operator}' for {field.type} attribute '{field.name}'")
    return Like(
        (Column(field.name, field.type),),
        parse_pattern(operand, field.name, operator),
        operator == "ilike",
    )


def _in(field: Field, operator: str, operand: JSON) -> Expression:
    values = parse_list(operand, field.name)
    operands = tuple(parse_operand(field, value) for value in values if value is not None)
    return Among(
        Column(field.name, field.type), operands, len(operands) != len(values), operator == "not in"
    )


def _is_a(field: Field, operand: JSON, kind: RecordType) -> Expression:
    names = operand if isinstance(operand, list) else [operand]
    infixes = tuple(infix for infix, name in KINDS.items() if name in names)
    if not all(isinstance(name, str) for name in names) or field.type is not Type.STRING:
        raise Invalid(
            f"Invalid operand {shorten(operand)} for 'is_a' in filter on '{field.name}': "
            "must be a kind"
        )
    # All uuids of a table have one infix: no row need be looked at.
    return Constant(kind.infix in infixes) if field.name == "uuid" else IsKind(field.name, infixes)


def _exists(field: Field, operator: str, operand: JSON) -> Expression:
    return Holds(_nested(field, operator), (parse_text(operand, field.name, operator),))


def _contains(field: Field, operator: str, operand: JSON) -> Expression:
    names = operand if isinstance(operand, list) else [operand]
    column = _nested(field, operator)
    if not names:
        raise Invalid(
            f"Invalid operand [] for 'contains' in filter on '{field.name}': must not be empty"
        )
    return Holds(column, tuple(parse_text(name, field.name, operator) for name in names))


def _nested(field: Field, operator: str) -> str:
    if not field.nested:
        raise Invalid(f"Invalid operator '{operator}' for {field.type} attribute '{field.name}'")
    return field.name


_OPERATORS: Final[Mapping[str, _Check]] = {
    "=": _equal,
    "!=": _equal,
    "<>": _equal,
    "<": _range,
    "<=": _range,
    ">": _range,
    ">=": _range,
    "like": _like,
    "ilike": _like,
    "in": _in,
    "not in": _in,
    "exists": _exists,
    "contains": _contains,
}


def _key(key: PropertyKey, operator: str, operand: JSON, attribute: str) -> Expression:
    if operator in ("like", "ilike"):
        return Like((key,), parse_pattern(operand, attribute, operator), operator == "ilike")
    if operator in ("in", "not in"):
        return Among(key, tuple(parse_list(operand, attribute)), negated=operator == "not in")
    if operator == "exists":
        return KeyExists(key, parse_boolean(operand, attribute))
    if operator == "contains":
        return KeyContains(key, operand)
    if operator == "is_a":
        raise Invalid(f"Invalid operator 'is_a' for sub-property '{attribute}'")
    if operator not in ("=", "!=", "<>") and (
        isinstance(operand, bool) or not isinstance(operand, str | int | float)
    ):
        raise Invalid(f"Invalid operand type for '{operator}' in filter on '{attribute}'")
    return Compare(key, "!=" if operator == "<>" else operator, operand)
