"""Queries of records as expression trees: what `filters` makes of a client's words and the API
writes itself, what `store/query.py` translates into SQL.

An expression holds for a record or does not. Permissions have expressions of their own, in
`permissions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from lading.core.records.permissions import (
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
from lading.core.records.schema import JSON, Type


@dataclass(frozen=True, slots=True)
class Column:
    """A stored field."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class PropertyKey:
    """One key of a stored object."""

    column: str
    key: str


Target: TypeAlias = Column | PropertyKey


@dataclass(frozen=True, slots=True)
class Compare:
    """`target operator value`; `!=` also holds when the target is null or the key is missing.
    `value` may be None.
    """

    target: Target
    operator: str
    value: JSON


@dataclass(frozen=True, slots=True)
class Among:
    """The target is one of `values`; negated: it is none of them (null counts as none unless `null`
    is set).
    """

    target: Target
    values: tuple[JSON, ...]
    null: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """The texts of `targets`, joined by spaces, match an SQL pattern; `fold` ignores case."""

    targets: tuple[Target, ...]
    pattern: str
    fold: bool = False


@dataclass(frozen=True, slots=True)
class CompareColumns:
    """`left operator right` for two columns of one type; `!=` also holds when exactly one of them
    is null.
    """

    left: Column
    operator: str
    right: Column


@dataclass(frozen=True, slots=True)
class IsKind:
    """The uuid in a column has one of these infixes."""

    column: str
    infixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holds:
    """An object column has all of these keys, or an array column all of these elements."""

    column: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyExists:
    """A key exists, or is missing where `exists` is false."""

    key: PropertyKey
    exists: bool


@dataclass(frozen=True, slots=True)
class KeyContains:
    """The value of a key equals `value`, or is an array that contains it."""

    key: PropertyKey
    value: JSON


@dataclass(frozen=True, slots=True)
class Constant:
    """Always or never true."""

    value: bool


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class OfContainer:
    """The container of a request satisfies `condition`."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class Outside:
    """The condition does not hold. A comparison with a missing value does not hold either."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class OfRequest:
    """A request that has this container satisfies `condition`."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class AmongFound:
    """The value of `column` is that of `named` of a record of the type `plural` which meets one of
    `parts`. Each part is to have an index that leads to few records.
    """

    column: str
    plural: str
    named: str
    parts: tuple[Expression, ...]


Expression: TypeAlias = (
    Compare
    | Among
    | Like
    | IsKind
    | Holds
    | KeyExists
    | KeyContains
    | CompareColumns
    | Constant
    | Either
    | OfContainer
    | OfRequest
    | AmongFound
    | All
    | Not
    | Outside
    | Requested
    | About
    | FormerPlace
    | Reachable
    | Accessible
    | ManagedHead
    | NamesImage
    | Untrashed
    | Unfrozen
    | Inside
    | Present
)


def columns_of(expression: Expression) -> Iterator[str]:
    """The columns of a client's condition whose values decide whether it holds; not those of the
    containers of requests.
    """
    match expression:
        case Compare(target) | Among(target):
            yield _column_of(target)
        case Like(targets):
            yield from map(_column_of, targets)
        case CompareColumns(left, _, right):
            yield from (left.name, right.name)
        case IsKind(column) | Holds(column):
            yield column
        case KeyExists(key) | KeyContains(key):
            yield key.column
        case Either(parts) | All(parts):
            for condition in parts:
                yield from columns_of(condition)
        case Not(negated) | Outside(negated):
            yield from columns_of(negated)


def _column_of(target: Target) -> str:
    return target.name if isinstance(target, Column) else target.column


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A checked list query. `select` None is the default set of fields."""

    where: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    select: tuple[str, ...] | None = None
    limit: int = 100
    offset: int = 0
    distinct: bool = False
    count: bool = False
    extra: tuple[str, ...] = field(default=())
    include: tuple[str, ...] = field(default=())
    most_bytes: int = 0
    """Maximum bytes of text to read, but at least one row; 0: no limit."""
