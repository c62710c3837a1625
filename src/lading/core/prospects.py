"""Whether a container that is made now could ever meet the `filters` of a request.

Filters say further what satisfies a request, so a request can say that nothing but an existing result will do (seed
002: "cannot be satisfied by a new Container record"), for instance with ["created_at", "<", ...]. What never changes
after a container was made is compared; whatever may still become true (its state, its exit code) does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lading.core.filters import Among, Column, Compare, Constant, Either, Expression
from lading.core.jsonvalue import Json

FIXED = frozenset(
    {"uuid", "owner_uuid", "created_at", "container_image", "cwd", "output_path", "runtime_user_uuid", "service"}
)
"""Attributes that are compared."""


def can_meet(filters: Sequence[Expression], container: Mapping[str, Json]) -> bool:
    """Whether a container with these attributes may come to meet all conditions."""
    return all(_possible(one, container) for one in filters)


def _possible(part: Expression, container: Mapping[str, Json]) -> bool:
    match part:
        case Constant(value):
            return value
        case Either(parts):
            return any(_possible(one, container) for one in parts)
        case Compare(Column(name), operator, value) if name in FIXED:
            return _compared(container.get(name), operator, value)
        case Among(Column(name), values, null, negated) if name in FIXED:
            actual = container.get(name)
            return (actual in values or (actual is None and null)) is not negated
    return True


def _compared(actual: Json, operator: str, value: Json) -> bool:
    if operator in ("=", "!="):
        return (actual == value) is (operator == "=")
    if not isinstance(actual, str) or not isinstance(value, str):
        return False
    ordered = {"<": actual < value, "<=": actual <= value, ">": actual > value, ">=": actual >= value}
    return ordered[operator]
