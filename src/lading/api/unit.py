"""One transaction on behalf of one user: its basic writes, and marks of the work that is left.

Features (quotas, fair shares, priorities and the others) get a `Unit`. They write by it, and mark
what has to be computed anew; what else a change needs they return as effects (`Effect`), which
`transaction.UnitOfWork` carries out. A feature that has to hear of changes is a `ChangeFollower`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, TypeAlias, TypeVar, cast

from lading.api.events import audit
from lading.api.services import ApiServices
from lading.core.containers import priority, request, request_phases
from lading.core.containers.container import FINAL
from lading.core.containers.priority import GroupKey
from lading.core.containers.request import ContainerRequest
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.schema import Record, RecordType
from lading.core.values import JsonObject
from lading.process.tracing import current_traceparent
from lading.store import cancellations, cascades, records
from lading.store.cascades import Cascade, CascadeKind
from lading.store.containers import lineage
from lading.store.database import Transaction

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Effect: a request whose row is `row` changes."""

    row: Record
    change: request.RequestChange


@dataclass(frozen=True, slots=True)
class FailRequest:
    """Effect: a Committed request that can never be run ends, for this reason."""

    row: Record
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Effect: a request is cancelled, if it is Committed still."""

    uuid: str


Effect: TypeAlias = ChangeRequest | FailRequest | CancelRequest


class Feature(Enum):
    """A feature that takes part in a transaction only where its site uses it."""

    QUOTAS = auto()
    SHARES = auto()
    CANCELLATIONS = auto()
    """Requests are being cancelled by filters."""


class Mark(Enum):
    """Work that is left in a transaction."""

    STOPPED = auto()
    """Requests are to be cancelled whose budget is spent."""
    ENDED = auto()
    """Requests ended or were deleted, so that their dependents are to be looked at."""
    STALE = auto()
    """Priorities of containers, or the turns of groups, are to be computed anew."""
    TOUCHED = auto()
    """Requests may wait for quotas that have room now."""


class ChangeFollower:
    """A feature that hears of the changes of requests and containers.

    It hears only of changes of attributes that it names, and only where its `feature` is used, so
    that no other change enters it. It writes by the unit, and marks what is left.
    `transaction.FOLLOWERS` has the order.
    """

    feature: ClassVar[Feature | None] = None
    """The feature without whose use it hears nothing; None: it always hears."""
    of_requests: ClassVar[tuple[str, ...]] = ()
    of_containers: ClassVar[tuple[str, ...]] = ()
    works_off: ClassVar[Mark | None] = None

    async def request_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """Follow the change of a request, or its creation (`old` is empty)."""

    async def container_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """Follow the change of a container, or its creation (`old` is empty). Raises Conflict
        where the change may not be made now.
        """

    async def settle(self, _unit: Unit, /) -> Sequence[Effect]:
        """Do the work of the mark `works_off`; what else is to be changed."""
        return ()


class Unit:
    """The changes of one transaction, and what is left to be done in it."""

    def __init__(
        self,
        tx: Transaction,
        services: ApiServices,
        *,
        user_uuid: str,
        followers: Sequence[ChangeFollower] = (),
    ) -> None:
        self.tx = tx
        self.services = services
        self.user_uuid = user_uuid
        # One time for all rows of the transaction.
        self.now = services.clock.now()
        self.created: set[str] = set()
        """Uuids of the containers that were made in this transaction."""
        self.over: set[str] = set()
        """Uuids of the containers that ended in this transaction: their intervals have ended, their
        priority counts no more, and the requests that they made are cancelled.
        """
        self.results: tuple[Record, ...] = ()
        """Records of collections with the results of a container that ends in this transaction. One
        of them need not be stored if another collection keeps its content.
        """
        self._followers = followers
        self._parts: dict[object, object] = {}
        self._marks: dict[Mark, dict[str, None]] = {}
        self._groups: dict[GroupKey, None] = {}
        self._in_use: frozenset[str] | None = None

    async def uses(self, feature: Feature) -> bool:
        """Whether the site uses a feature."""
        if feature is Feature.SHARES:
            return self.services.config.Containers.FairShare.Enabled
        if feature is Feature.CANCELLATIONS:
            return cancellations.IN_USE in await self._features()
        return bool(await self.quota_kinds())

    async def quota_kinds(self) -> frozenset[str]:
        """The kinds of subjects that have quotas."""
        return await self._features() - {cancellations.IN_USE}

    async def _features(self) -> frozenset[str]:
        if self._in_use is None:
            cluster = self.services.config.ClusterID
            self._in_use = await cancellations.features_in_use(self.tx, cluster)
        return self._in_use

    def part(self, make: Callable[[Unit], _Part]) -> _Part:
        """The memory of a feature while this unit lasts; made at its first use."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return cast("_Part", self._parts[make])

    def forget_part(self, make: Callable[[Unit], object]) -> None:
        """Have a part made anew at its next use."""
        self._parts.pop(make, None)

    def has_kept(self, portable_data_hash: str) -> None:
        """Note that a new collection keeps this content."""
        self.results = tuple(
            record for record in self.results if record["portable_data_hash"] != portable_data_hash
        )

    def stale(self, container_uuids: Iterable[str]) -> None:
        """Mark containers whose priorities are to be computed anew."""
        # Computed once at the end: many changes of a transaction concern the same few containers.
        self._mark(Mark.STALE, (uuid for uuid in container_uuids if uuid not in self.over))

    def touch(self, subjects: Iterable[str]) -> None:
        """Mark subjects of quotas for which requests may wait that have room now."""
        self._mark(Mark.TOUCHED, subjects)

    async def defer(self, kind: CascadeKind, subject_uuid: str) -> None:
        """Have a consequence for many records worked off by `api.background.cascades`."""
        cascade = Cascade(kind=kind, subject_uuid=subject_uuid, begun_at=self.now)
        await cascades.put(self.tx, cascade)
        self.tx.after_commit(self.services.events.wakeups.cascade)

    def ended(self, request_uuid: str) -> None:
        """Mark a request that ended or was deleted, so that its dependents are looked at."""
        self._mark(Mark.ENDED, [request_uuid])

    def stop(self, request_uuid: str) -> None:
        """Mark a request that is to be cancelled because a budget is spent."""
        self._mark(Mark.STOPPED, [request_uuid])

    def _mark(self, mark: Mark, uuids: Iterable[str]) -> None:
        self._marks.setdefault(mark, {}).update(dict.fromkeys(uuids))

    def regroup(self, row: Record) -> None:
        """Mark the group of a request: it may be the turn of another one."""
        if row["max_parallel"]:
            key = priority.group_of(ContainerRequest.from_record(row))
            if key is not None:
                self._groups[key] = None

    @property
    def marked(self) -> frozenset[Mark]:
        """The marks of work that is left."""
        marks = {mark for mark, uuids in self._marks.items() if uuids}
        return frozenset(marks | {Mark.STALE} if self._groups else marks)

    def take(self, mark: Mark) -> dict[str, None]:
        """The uuids that are marked so, which are marked no more."""
        return self._marks.pop(mark, {})

    def take_groups(self) -> dict[GroupKey, None]:
        """The marked groups, which are marked no more."""
        taken, self._groups = self._groups, {}
        return taken

    async def container(self, uuid: str) -> Record | None:
        """A container's row."""
        return await records.get(self.tx, CONTAINERS, uuid)

    async def committed(self, container_uuid: str) -> list[tuple[Record, ContainerRequest]]:
        """The Committed requests of a container, with their rows."""
        rows = await records.matching(
            self.tx,
            REQUESTS,
            container_uuid=container_uuid,
            state=request_phases.RequestState.COMMITTED,
        )
        return [(row, ContainerRequest.from_record(row)) for row in rows]

    async def add_container(self, values: JsonObject) -> Record:
        """Store a new container with these values; its row."""
        row: Record = {
            **values,
            # The system user owns containers: users read them through their requests alone.
            "owner_uuid": self.services.ids.system_user,
            "created_at": self.now,
            "modified_at": self.now,
            "modified_by_user_uuid": self.services.ids.system_user,
            # Dispatcher and supervisor go on with the trace of this call.
            "traceparent": current_traceparent() or None,
        }
        await audit.created(self.tx, self.services, CONTAINERS, row, user_uuid=self.user_uuid)
        await records.add(self.tx, CONTAINERS, row)
        if any(mount.get("portable_data_hash") for mount in row["mounts"].values()):
            # The index by which users of a content are found.
            await lineage.note_inputs(self.tx, row)
        self.created.add(row["uuid"])
        await self._tell_container({}, row)
        return row

    async def write_container(
        self, old: Record, changed: JsonObject, *, expected: JsonObject
    ) -> Record:
        """Store values of a container; the new row. Raises Conflict."""
        if not changed:
            return old
        new = await self._write(CONTAINERS, old, changed, expected)
        if new["state"] in FINAL:
            self.over.add(new["uuid"])
        await self._tell_container(old, new)
        return new

    async def _tell_container(self, old: Record, new: Record) -> None:
        for follower in self._followers:
            if any(old.get(name) != new[name] for name in follower.of_containers) and (
                follower.feature is None or await self.uses(follower.feature)
            ):
                await follower.container_changed(self, old, new)

    async def write_request(
        self, old: Record, changed: JsonObject, *, expected: JsonObject
    ) -> Record:
        """Store values of a request; the new row. Raises Conflict."""
        return await self._write(REQUESTS, old, changed, expected) if changed else old

    async def _write(
        self, kind: RecordType, old: Record, changed: JsonObject, expected: JsonObject
    ) -> Record:
        real: Record = {**changed, "modified_at": self.now, "modified_by_user_uuid": self.user_uuid}
        # Compare-and-set: `expected` are the values that the decision was made from.
        await records.change(self.tx, kind, old["uuid"], real, expected=expected)
        new = {**old, **real}
        await audit.changed(self.tx, self.services, kind, old, new, user_uuid=self.user_uuid)
        return new
