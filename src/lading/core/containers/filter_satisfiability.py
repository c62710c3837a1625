"""Satisfiability of a request's `filters` by a new container.

Filters are further conditions on existing containers (docs/spec/containers, section Reuse). A
request may accept existing results only, for instance with ["state", "=", "Complete"],
["exit_code", "=", 0] or ["created_at", "<", ...]; then no new container is made. A new container is
Queued, without exit code, times and output, so each attribute with a single value is compared as it
will be stored. Conditions on objects, arrays and text patterns count as satisfied, and so do those
on the priority, which depends on the requests of the container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lading.core.json_values import Json
from lading.core.records.filters import (
    Among,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Either,
    Expression,
    IsKind,
)
from lading.core.records.schema import Type

_PLAIN = frozenset({Type.STRING, Type.TIME, Type.INTEGER, Type.FLOAT, Type.BOOLEAN})
# Attributes that change before the container runs.
_OPEN = frozenset({"priority"})


def can_meet(filters: Sequence[Expression], container: Mapping[str, Json]) -> bool:
    """Whether a container with these attributes satisfies all conditions, as far as they are
    compared.
    """
    return all(_possible(one, container) for one in filters)


def _possible(part: Expression, container: Mapping[str, Json]) -> bool:
    match part:
        case Constant(value):
            return value
        case Either(parts):
            return any(_possible(one, container) for one in parts)
        case Compare(Column() as column, operator, value) if _is_known(column, container):
            return _compared(container[column.name], operator, value)
        case Among(Column() as column, values, null, negated) if _is_known(column, container):
            actual = container[column.name]
            return (actual in values or (actual is None and null)) is not negated
        case CompareColumns(left, operator, right) if _is_known(left, container) and _is_known(
            right, container
        ):
            return _related(container[left.name], operator, container[right.name])
        case IsKind(name) if name in container:
            return container[name] is not None
    return True


def _is_known(column: Column, container: Mapping[str, Json]) -> bool:
    return column.type in _PLAIN and column.name in container and column.name not in _OPEN


def _related(left: Json, operator: str, right: Json) -> bool:
    """Comparison of two attributes: null is unequal to everything, also to null."""
    if left is None or right is None:
        return operator == "!=" and left is not right
    return _compared(left, operator, right)


def _compared(actual: Json, operator: str, value: Json) -> bool:
    if operator in ("=", "!="):
        return (actual == value) is (operator == "=")
    before, same = _ordered(actual, value), actual == value
    if before is None:
        return False
    return {"<": before, "<=": before or same, ">": not before and not same, ">=": not before}[
        operator
    ]


def _ordered(left: Json, right: Json) -> bool | None:
    """Whether `left` is less than `right`; None when they cannot be ordered."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left < right
    return None
