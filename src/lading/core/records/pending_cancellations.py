"""Conditions on requests and containers while cancellations of many requests are under way.

A cancellation holds from the call on, and its rows are written afterwards. Until then readers are
shown what the rows will be: a covered request is Final with priority 0, and a container that only
covered requests want is Cancelled with priority 0. Conditions on these attributes are rewritten so
(`View.heed`); all others mean what is stored.

A request is covered if it is Committed, meets the conditions of a cancellation, comes before its
position, and no dispatcher has taken its container. The few whose containers were taken are the
first that are written.

Source: docs/spec/api, section Cancelling many requests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    All,
    Among,
    AmongFound,
    Column,
    Compare,
    Constant,
    Either,
    Expression,
    Not,
    OfContainer,
    OfRequest,
    Outside,
    columns_of,
)
from lading.core.records.schema import JSON, Record, RecordType, Type

_STATE: Final = Column("state", Type.STRING)
COMMITTED: Final = Compare(_STATE, "=", "Committed")
QUEUED: Final = Compare(_STATE, "=", "Queued")
_TAKEN: Final = Among(_STATE, ("Locked", "Running"))
_HAS_PRIORITY: Final = Compare(Column("priority", Type.INTEGER), ">", 0)
_NO_CONTAINER: Final = Compare(Column("container_uuid", Type.STRING), "=", None)
_CREATED: Final = Column("created_at", Type.TIME)
_UUID: Final = Column("uuid", Type.STRING)
_IS_TAKEN: Final = AmongFound("container_uuid", CONTAINERS.plural, "uuid", (_TAKEN,))
SHOWN: Mapping[str, Mapping[str, JSON]] = MappingProxyType(
    {
        REQUESTS.plural: MappingProxyType({"state": "Final", "priority": 0}),
        CONTAINERS.plural: MappingProxyType({"state": "Cancelled", "priority": 0}),
    }
)
"""The attributes that readers are shown of a covered record, by its type."""
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


def unindexed(condition: Expression) -> Expression:
    """The same condition in a form for which no planner takes an index: another condition leads to
    few records.
    """
    return Outside(Outside(condition))


def before(position: tuple[str, str]) -> tuple[Expression, ...]:
    """Conditions that a request is older than a position, (created_at, uuid)."""
    at, uuid = position
    same = Compare(_CREATED, "=", at), Compare(_UUID, "<", uuid)
    return Compare(_CREATED, "<=", at), Either((Compare(_CREATED, "<", at), All(same)))


def _since(position: tuple[str, str]) -> tuple[Expression, ...]:
    """Conditions that a request is not older than a position."""
    at, uuid = position
    same = Compare(_CREATED, "=", at), Compare(_UUID, ">=", uuid)
    return Compare(_CREATED, ">=", at), Either((Compare(_CREATED, ">", at), All(same)))


@dataclass(frozen=True, slots=True)
class PendingCancellation:
    """The requests that a cancellation has yet to reach: the Committed requests that meet
    `conditions` and come before `position`, (created_at, uuid), exclusive.
    """

    conditions: tuple[Expression, ...]
    position: tuple[str, str]
    start: tuple[str, str]
    """Its first position. Newer requests were committed after the call."""
    exceptions: tuple[str, ...] | None = None
    """The uuids of the Committed requests before its start that it does not mean; None where they
    are not known, or are many.
    """

    @property
    def excepted(self) -> tuple[Expression, ...]:
        """The conditions of the requests that are exceptions, if there are any."""
        others = Outside(All(self.conditions)) if self.conditions else Constant(False)
        return (COMMITTED, *before(self.start), others)

    @property
    def meant(self) -> Expression:
        """The condition that the cancellation means a request, whatever its container does."""
        return All((COMMITTED, *self.conditions, *before(self.position)))


@dataclass(frozen=True)
class View:
    """The view of readers while these cancellations, at least one, are under way."""

    pending: tuple[PendingCancellation, ...]

    @cached_property
    def _meant(self) -> Expression:
        return Either(tuple(cancellation.meant for cancellation in self.pending))

    @cached_property
    def _requests(self) -> Expression:
        # Few are taken: they are found once for a query, and not for each request.
        is_waiting = Either((_NO_CONTAINER, Not(_IS_TAKEN)))
        return All((self._meant, is_waiting))

    @cached_property
    def _containers(self) -> Expression:
        others = All((COMMITTED, Outside(self._meant)))
        return All((QUEUED, OfRequest(self._meant), Not(OfRequest(others))))

    def covered(self, kind: RecordType) -> Expression | None:
        """The condition that a record of a type is covered; None for types that never are."""
        if kind is REQUESTS:
            return self._requests
        return self._containers if kind is CONTAINERS else None

    def heed(self, kind: RecordType, where: Sequence[Expression]) -> tuple[Expression, ...]:
        """The conditions that a stored record meets when its shown values meet `where`."""
        covered = self.covered(kind)
        if covered is None:
            return tuple(where)
        uncovered = self._indexed(kind, where)
        if uncovered is not None:
            settled = COMMITTED if kind is REQUESTS else QUEUED
            return (
                uncovered,
                *(unindexed(condition) for condition in where if condition != settled),
            )
        return tuple(self._heed(condition, SHOWN[kind.plural], covered) for condition in where)

    def _heed(
        self, condition: Expression, shown: Mapping[str, JSON], covered: Expression
    ) -> Expression:
        match condition:
            case Either(parts):
                return Either(
                    tuple(self._heed(alternative, shown, covered) for alternative in parts)
                )
            case All(parts):
                return All(tuple(self._heed(conjunct, shown, covered) for conjunct in parts))
            case Not(inner):
                return Not(self._heed(inner, shown, covered))
            case OfContainer(inner):
                return OfContainer(self._heed(inner, SHOWN[CONTAINERS.plural], self._containers))
            case _ if shown.keys().isdisjoint(columns_of(condition)):
                return condition
            case _ if _holds(condition, shown):
                return Either((condition, covered))
            case _:
                return All((condition, Outside(covered)))

    def _indexed(self, kind: RecordType, where: Sequence[Expression]) -> Expression | None:
        """The condition that a record is not covered, by indexes that lead to few records; None
        where there are none.

        Where a list asks for Committed requests that a cancellation means, all before its start are
        covered or cancelled, up to those whose containers were taken. There may be a million of
        them, which a list would have to pass by: also those that were cancelled since, which
        PostgreSQL's indexes have until they are vacuumed.
        """
        if len(self.pending) != 1:
            return None
        (cancellation,) = self.pending
        parts: tuple[Expression, ...] = (All((COMMITTED, *_since(cancellation.start))),)
        if cancellation.exceptions:
            parts += (All((COMMITTED, Among(_UUID, cancellation.exceptions))),)
        if kind is REQUESTS and COMMITTED in where:
            # What the list leaves out is no exception to it.
            if cancellation.exceptions is None and not set(cancellation.conditions) <= set(where):
                return None
            taken = All((COMMITTED, _IS_TAKEN))
            return AmongFound("uuid", REQUESTS.plural, "uuid", (*parts, taken))
        # A container with priority has a request.
        if kind is CONTAINERS and {QUEUED, _HAS_PRIORITY} <= set(where):
            if cancellation.exceptions is None:
                others = All((COMMITTED, Outside(cancellation.meant)))
                return AmongFound("uuid", REQUESTS.plural, "container_uuid", (others,))
            return AmongFound("uuid", REQUESTS.plural, "container_uuid", parts)
        return None


def show(kind: RecordType, row: Record) -> None:
    """Change the attributes that a covered record has so that readers are shown them."""
    for name, value in SHOWN[kind.plural].items():
        if name in row:
            row[name] = value


def _holds(condition: Expression, shown: Mapping[str, JSON]) -> bool:
    """Whether a condition on one attribute holds for the shown value. Conditions of other forms
    count as not met.
    """
    match condition:
        case Compare(Column(name), sign, value) if name in shown:
            if value is None:
                return sign == "!="
            return _OPERATORS[sign](shown[name], value)
        case Among(Column(name), values, negated=negated) if name in shown:
            return (shown[name] in values) is not negated
        case _:
            return False
