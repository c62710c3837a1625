"""Selects the events, and their properties, that one reader may see while the token is valid.

The token and its user are looked up again for an event, unless that was done less than a second
before and neither was changed here since: an expired or deleted token ends the connection. A user
receives the events whose log rows the user may read at that moment, which is checked for each
event; a dispatcher's token receives those of changes of containers. A token of limited scope
receives those of records that it may GET. The old attributes of a moved record are left out for
users who cannot read its former owner's records.
Source: docs/spec/api, section Websocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lading.api.events.audit import is_event, listened, make_event
from lading.api.events.listeners import HeardEvent, LogEvent
from lading.api.logins.authentication import authenticate
from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.core.containers.container import ContainerState
from lading.core.errors import Forbidden, Unauthenticated
from lading.core.quantities import format_time, parse_time
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import Column, Compare, Expression, Query, SortKey
from lading.core.records.record_types import BY_INFIX, LOGS
from lading.core.records.schema import JSON, Record, Type
from lading.store import permission_queries, records
from lading.store.database import Database

# Age of the oldest events that a client can have repeated.
REPLAY: Final = timedelta(minutes=10)
FRESH: Final = timedelta(seconds=1)
"""Time for which the principal of a listener is not looked up again, unless a token was changed in
this process.
"""
MOST_VALUES: Final = 1000
"""Most values in the filters of one reader. Each event is compared with them in the loop that
serves all clients, so that a reader with more would delay the others.
"""
# Callers that are kept before those are forgotten that were looked up long ago.
_MOST_KNOWN: Final = 256
# What each dispatcher calls, and its token may call.
_DISPATCHING: Final = "/arvados/v1/dispatch/statuses"
_COMPARISONS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda value, operand: value == operand,
    "<": lambda value, operand: value < operand,
    "<=": lambda value, operand: value <= operand,
    ">": lambda value, operand: value > operand,
    ">=": lambda value, operand: value >= operand,
}


def audience_of(principal: Principal) -> str:
    """The user whose events a caller reads; "" for one who gets all of them and decides about each:
    an admin, a dispatcher, or a caller with the tokens of others.
    """
    is_direct = principal.is_admin or principal.is_dispatcher or principal.readers
    return "" if is_direct else principal.user_uuid


def _is_fresh(services: ApiServices, known_at: datetime, changes: int) -> bool:
    """Whether what was known then holds still, after so many changes of tokens in this process."""
    if changes != services.events.bus.token_changes:
        return False
    # The clock was set back: the age of the result is unknown.
    return timedelta() <= services.clock.time() - known_at < FRESH


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """The caller of a token, the time of the look-up, and the number of changes of tokens before
    it.
    """

    principal: Principal
    known_at: datetime
    changes: int


class KnownCallers:
    """The callers of listeners, each looked up once for all listeners with the same token."""

    def __init__(self) -> None:
        self._callers: dict[str, KnownCaller] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def look_up(self, services: ApiServices, token: str) -> KnownCaller:
        """The caller of a token, known for less than FRESH. Raises Unauthenticated when the token
        is not valid any more.
        """
        # One look-up at a time: the others wait for its result.
        async with self._turns.setdefault(token, asyncio.Lock()):
            found = self._callers.get(token)
            if found is None or not _is_fresh(services, found.known_at, found.changes):
                found = await self._find(services, token)
        return found

    def forget(self, token: str) -> None:
        """Look the caller of a token up before the next event."""
        self._callers.pop(token, None)

    async def _find(self, services: ApiServices, token: str) -> KnownCaller:
        # The result may lack changes made during the look-up.
        now, changes = services.clock.time(), services.events.bus.token_changes
        principal = await authenticate(services, token)
        if principal is None:
            raise Unauthenticated
        self._forget_old(services)
        found = self._callers[token] = KnownCaller(principal, now, changes)
        return found

    def _forget_old(self, services: ApiServices) -> None:
        """Forget what is not fresh any more, once there is much of it."""
        if len(self._callers) < _MOST_KNOWN:
            return
        self._callers = {
            token: caller
            for token, caller in self._callers.items()
            if _is_fresh(services, caller.known_at, caller.changes)
        }
        self._turns = {
            token: turn
            for token, turn in self._turns.items()
            if turn.locked() or token in self._callers
        }


CALLERS: Final = FeatureKey[KnownCallers]("callers of listeners", KnownCallers)


class EventReader:
    """A caller who reads events. `path`: the address that a token of limited scope must cover."""

    def __init__(self, services: ApiServices, principal: Principal, *, path: str) -> None:
        self._services = services
        self._principal = principal
        self._path = path
        self._known_at: datetime | None = None
        self._known_changes = 0

    @property
    def is_known(self) -> bool:
        """Whether the caller was looked up a moment ago, and no token was changed in this process
        since.
        """
        if self._known_at is None:
            return False
        return _is_fresh(self._services, self._known_at, self._known_changes)

    @property
    def dispatcher(self) -> str:
        """The uuid of the caller's token. Raises Forbidden if it is not one for dispatchers."""
        access.check_scope(self._principal, "POST", _DISPATCHING)
        if not (self._principal.is_dispatcher or self._principal.is_admin):
            raise Forbidden("offers: the token is not an admin's; subscribe without them")
        return self._principal.token_uuid

    async def look_up(self) -> None:
        """Look the caller up again. Raises Unauthenticated, Forbidden when the token is not valid
        any more.
        """
        callers = self._services.features[CALLERS]
        found = await callers.look_up(self._services, self._principal.token)
        access.check_scope(found.principal, "GET", self._path)
        access.check_active(found.principal)
        self._principal = found.principal
        self._known_at, self._known_changes = found.known_at, found.changes

    def note(self, event: LogEvent) -> None:
        """Look the caller up before the next event if this one is about the caller."""
        if event.object_uuid == self._principal.user_uuid:
            self._known_at = None
            self._services.features[CALLERS].forget(self._principal.token)

    @property
    def audience(self) -> str:
        """The user whose events the caller reads; "" for one who gets all of them."""
        return audience_of(self._principal)

    def visible_at_once(self, heard: HeardEvent) -> Record | None:
        """The properties of an event that the caller may see by what is known of both, as of nearly
        all events; None where `visible` has to find out.
        """
        principal, event = self._principal, heard.event
        if principal.is_dispatcher or "all" not in principal.scopes:
            return None
        if principal.is_admin:
            return event.properties
        return event.properties if self._is_decided(heard) and not event.is_move else None

    async def visible(self, heard: HeardEvent) -> Record | None:
        """The properties of an event that the caller may see; None if the caller may not see the
        event.
        """
        event = heard.event
        return await self._properties(event) if await self._may_read(event, heard) else None

    def _is_decided(self, heard: HeardEvent) -> bool:
        """Whether it was found a moment ago that the user may read an event."""
        if heard.decided_at is None or not self.audience:
            return False
        age = asyncio.get_running_loop().time() - heard.decided_at
        return age < FRESH.total_seconds()

    async def _may_read(self, event: LogEvent, heard: HeardEvent) -> bool:
        kind = BY_INFIX.get(event.object_uuid[6:11])
        path = f"/arvados/v1/{kind.plural if kind else LOGS.plural}/{event.object_uuid}"
        if not access.covers(self._principal, "GET", path):
            return False
        if self._principal.is_dispatcher:
            return event.is_change_of_container and await self._may_dispatch(event)
        if self._principal.is_admin or self._is_decided(heard):
            return True
        conditions = access.readable(LOGS, self._principal, now=self._services.clock.now())
        where = (Compare(Column("id", Type.INTEGER), "=", event.id), *conditions)
        async with self._services.database.reading() as tx:
            return await records.exists(tx, tx.dialect, LOGS, where)

    async def _may_dispatch(self, event: LogEvent) -> bool:
        """Whether the container of an event waits or waited, or this dispatcher locked it."""
        if any(
            event.attributes(side).get("state") == ContainerState.QUEUED
            or event.attributes(side).get("locked_by_uuid") == self._principal.token_uuid
            for side in ("old_attributes", "new_attributes")
        ):
            # Most events say so by themselves, and need no query.
            return True
        conditions = access.readable(CONTAINERS, self._principal, now=self._services.clock.now())
        where = (records.equals(CONTAINERS, "uuid", event.object_uuid), *conditions)
        async with self._services.database.reading() as tx:
            return await records.exists(tx, tx.dialect, CONTAINERS, where)

    async def _may_look_into(self, owner: str) -> bool:
        """Whether the caller can read the records that a user or a project owns."""
        user = self._principal.user_uuid
        if owner == user:
            return True
        async with self._services.database.reading() as tx:
            return await permission_queries.level_in(tx, user, owner) > 0

    async def _properties(self, event: LogEvent) -> Record:
        """The properties of an event, without the old attributes of a record that was in a place
        that the caller cannot read.
        """
        given = event.properties
        if self._principal.is_admin or not event.is_move:
            return given
        if await self._may_look_into(str(event.attributes("old_attributes")["owner_uuid"])):
            return given
        return {name: value for name, value in given.items() if name != "old_attributes"}


async def missed(database: Database, clock: ApiClock, last: int) -> list[LogEvent]:
    """The events after a number, of the last ten minutes."""
    where: tuple[Expression, ...] = (
        Compare(Column("id", Type.INTEGER), ">", last),
        Compare(Column("event_at", Type.TIME), ">", format_time(clock.time() - REPLAY)),
    )
    names = tuple(column.name for column in LOGS.columns)
    query = Query(where=where, order=(SortKey("id"),), select=names, limit=10_000)
    async with database.reading() as tx:
        rows = await records.search(tx, tx.dialect, LOGS, query)
    return [make_event(row, listened(row["properties"])) for row in rows if is_event(row)]


def meets(filters: list[JSON], event: LogEvent) -> bool:
    """Whether an event satisfies all filters of a subscription."""
    return all(matches(condition, event) for condition in filters)


def matches(condition: JSON, event: LogEvent) -> bool:
    """Whether an event satisfies one filter of a subscription."""
    attribute, operator, operand = condition
    if attribute == "event_type" and operator == "in" and isinstance(operand, list):
        return event.event_type in operand
    if attribute == "object_uuid" and operator == "is_a":
        return event.object_kind in (operand if isinstance(operand, list) else [operand])
    if attribute == "created_at" and operator in _COMPARISONS and isinstance(operand, str):
        try:
            return _COMPARISONS[operator](event.event_at, format_time(parse_time(operand)))
        except (ValueError, OverflowError):
            return True
    return True


def count_values(filters: Iterable[JSON]) -> int:
    """The number of values that each event is compared with, for filters as `is_filter` has
    them.
    """
    return sum(len(condition[2]) if isinstance(condition[2], list) else 1 for condition in filters)


def is_filter(candidate: JSON) -> bool:
    """Whether it has the form of a filter: attribute, operator, operand."""
    return (
        isinstance(candidate, list)
        and len(candidate) == 3
        and isinstance(candidate[0], str)
        and isinstance(candidate[1], str)
    )
