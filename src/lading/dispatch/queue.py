"""The container records as this dispatcher knows them: a cache fed by lists, events and answers.

Several sources race with each other, so every update carries a version, a number that only grows.
Rules (docs/spec/dispatch, section Queue):

- A list or a fetch takes a ticket *before* its request is sent. It never overwrites later updates,
  such as the answer to a lock that was sent meanwhile, and never brings back a record that was
  dropped meanwhile.
- The answer to a write of our own is the newest truth.
- An event may only move a state forward (to Running or to a final state, which never change back);
  otherwise the record is fetched.
- A uuid that was requested and not returned has no record any more; that is stored too (`state`
  None).
- Of a long queue only the first part is read (`core.scheduling.planning`): a waiting container
  behind it is not added, and one that was added before is hidden from planning until a later read
  reaches it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from msgspec import structs

from lading.core import capabilities, resources
from lading.core.capabilities import OFFERED
from lading.core.containers import constraints
from lading.core.containers.attempts import spot
from lading.core.containers.attempts.spot import Preemption
from lading.core.containers.container import HELD, ContainerState
from lading.core.containers.disk_space import disk_factor
from lading.core.errors import Invalid
from lading.core.hpc.gang import SHARE_VCPUS
from lading.core.quantities import parse_time
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import NO_GPU, requested_gpus
from lading.core.scheduling.planning import Place, TrackedContainer, Window
from lading.core.values import Json

FIELDS = (
    "uuid", "state", "priority", "created_at", "locked_by_uuid", "runtime_constraints",
    "constraint_ranges", "scheduling_parameters", "runtime_user_uuid",
)  # fmt: skip
DISK_FIELDS = ("mounts", "container_image")
"""Further attributes, from which the need of scratch disk follows."""
_STATES = frozenset(state.value for state in ContainerState)
# Steps that are never undone. Queued and Locked have one rank: a lock can be given back.
_RANK: Mapping[ContainerState | None, int] = MappingProxyType(
    {
        None: 0,
        ContainerState.QUEUED: 0,
        ContainerState.LOCKED: 0,
        ContainerState.RUNNING: 1,
        ContainerState.COMPLETE: 2,
        ContainerState.CANCELLED: 2,
    }
)


class Queue:
    """The records by uuid: `waiting` ones (queued with a priority), and `others`, which need a look
    at every step.
    """

    def __init__(
        self,
        *,
        token: str,
        plans_disk: bool = False,
        preemptible_partitions: tuple[str, ...] = (),
        offered: Mapping[str, Json] = OFFERED,
    ) -> None:
        """`plans_disk`: the items that are merged have DISK_FIELDS, and scratch disk is part of the
        need. `preemptible_partitions` are those of containers that accept preemptible machines and
        name no partition. `offered` are the capabilities of the machines.
        """
        self._offered = offered
        self._preemptible_partitions = preemptible_partitions
        self._token = token
        self._plans_disk = plans_disk
        self._version = 0
        self._waiting: dict[str, TrackedContainer] = {}
        self._others: dict[str, TrackedContainer] = {}
        self._fetches: set[int] = set()
        # Versions of dropped records, as long as an older answer may still be under way.
        self._forgotten: dict[str, int] = {}
        self._entries: tuple[tuple[TrackedContainer, ...], tuple[TrackedContainer, ...]] | None = (
            None
        )
        self._has_gangs = False
        self._locking: set[str] = set()
        self.shared = False
        """Whether other dispatchers lock containers of this queue."""
        self._window = self._workflow_window = Window()
        self._field_set = frozenset(self.fields)

    @property
    def fields(self) -> tuple[str, ...]:
        """The attributes to ask for."""
        return (*FIELDS, *DISK_FIELDS) if self._plans_disk else FIELDS

    @property
    def waiting(self) -> Mapping[str, TrackedContainer]:
        """Records that wait to be started."""
        return self._waiting

    @property
    def others(self) -> Mapping[str, TrackedContainer]:
        """All other records."""
        return self._others

    def entries(self) -> tuple[TrackedContainer, ...]:
        """The waiting containers that are sized and not hidden, without workflow runners."""
        return self._planned()[0]

    def workflow_runners(self) -> tuple[TrackedContainer, ...]:
        """The waiting workflow runners that are sized and not hidden."""
        return self._planned()[1]

    @property
    def has_gangs(self) -> bool:
        """Whether one of `entries` or `workflow_runners` has several nodes."""
        self._planned()
        return self._has_gangs

    def _planned(self) -> tuple[tuple[TrackedContainer, ...], tuple[TrackedContainer, ...]]:
        # Kept until a waiting record changes: most steps are taken for other reasons.
        if self._entries is None:
            shown = [
                record
                for record in self._waiting.values()
                if record.sized and self._window_of(record).shows(record)
            ]
            self._entries = (
                tuple(record for record in shown if not record.runs_workflow),
                tuple(record for record in shown if record.runs_workflow),
            )
            self._has_gangs = any(record.nodes > 1 for record in shown)
        return self._entries

    @property
    def window(self) -> Window:
        """Reach of the last reading of the queue, for containers that run no workflow."""
        return self._window

    @property
    def workflow_window(self) -> Window:
        """Reach of the last reading of the queue, for workflow runners."""
        return self._workflow_window

    def show(self, window: Window, *, workflows: Window) -> None:
        """Set the windows of a look, whose records are merged next."""
        self._window, self._workflow_window = window, workflows
        self._entries = None

    def hides(self, uuid: str) -> bool:
        """Whether a container waits beyond the window."""
        record = self._waiting.get(uuid)
        return record is not None and self._is_beyond(record)

    def _is_beyond(self, record: TrackedContainer) -> bool:
        # A container without a valid size is not planned, so it overtakes no other one.
        return record.waiting and record.sized and not self._window_of(record).shows(record)

    def _window_of(self, record: TrackedContainer) -> Window:
        return self._workflow_window if record.runs_workflow else self._window

    def get(self, uuid: str) -> TrackedContainer | None:
        """The record, if anything is known of it."""
        return self._waiting.get(uuid) or self._others.get(uuid)

    def look_up(self, uuid: str) -> TrackedContainer | None:
        """The record, if there is one: for a fleet that has a process of the container."""
        record = self.get(uuid)
        return record if record is not None and record.state is not None else None

    def uuids(self) -> set[str]:
        """The uuids of all known records."""
        return self._waiting.keys() | self._others.keys()

    def holds(self, record: TrackedContainer) -> bool:
        """Whether this dispatcher's token has locked it."""
        return record.locked_by == self._token

    def ticket(self) -> int:
        """Return a version newer than all known versions."""
        self._version += 1
        return self._version

    @contextmanager
    def fetch(self) -> Iterator[int]:
        """The ticket for one request whose answer is merged inside the `with`."""
        ticket = self.ticket()
        self._fetches.add(ticket)
        try:
            yield ticket
        finally:
            self._fetches.remove(ticket)
            # A forgotten record must not come back with an answer that was asked for before; once
            # every such request is answered the note can go.
            oldest = min(self._fetches, default=self._version)
            self._forgotten = {
                uuid: version for uuid, version in self._forgotten.items() if version > oldest
            }

    @contextmanager
    def locking(self, uuid: str) -> Iterator[None]:
        """Context of a lock request of this dispatcher: its answer has more attributes than the
        event, which often arrives first.
        """
        self._locking.add(uuid)
        try:
            yield
        finally:
            self._locking.discard(uuid)

    def merge(
        self,
        items: Iterable[Mapping[str, object]],
        *,
        ticket: int,
        now: float,
        asked: Collection[str] = (),
    ) -> None:
        """Learn from a list answer; `asked`: the uuids asked for by name, so that a missing one is
        known as missing.
        """
        listed = set()
        for item in items:
            uuid = str(item["uuid"])
            listed.add(uuid)
            old = self.get(uuid)
            fresh = _read(item, old, version=ticket, now=now, plans_disk=self._plans_disk)
            if fresh.state is ContainerState.QUEUED:
                required = constraints.capabilities(_mapping(item.get("runtime_constraints")))
                lacks = capabilities.lacking(required, self._offered) if required else ""
                fresh = replace(fresh, lacks=lacks) if lacks else fresh
            if fresh.preemptible and not fresh.partitions:
                fresh = replace(fresh, partitions=self._preemptible_partitions)
            self._learn(fresh)
        # The rows of a list that were asked for by name and are missing have been deleted.
        for uuid in asked:
            if uuid not in listed:
                self._learn(TrackedContainer(uuid=uuid, state=None, version=ticket))

    def hear(self, item: Mapping[str, object], *, now: float) -> bool:
        """Learn of a new container from its event. Returns whether it was learned; if not, because
        attributes are missing or later ones may be known, the record must be fetched.
        """
        uuid = str(item.get("uuid") or "")
        if (
            self.get(uuid) is not None
            or uuid in self._forgotten
            or not item.keys() >= self._field_set
        ):
            return False
        # What an answer under way knows of later comes by an event, too.
        self.merge([item], ticket=self.ticket(), now=now)
        return True

    def answer(self, item: Mapping[str, object]) -> None:
        """Learn from the answer to this dispatcher's own write of a known container."""
        old = self.get(str(item["uuid"]))
        if old is not None:
            given = item.get("runtime_constraints")
            # The answer of a lock has the amounts that were chosen; other answers have no
            # constraints.
            need, fault = (
                _size(given, old.need.disk, old.nodes, shares_vcpus=old.shares_vcpus)
                if given is not None
                else (old.need, old.fault)
            )
            self._learn(
                replace(
                    old,
                    need=need,
                    fault=fault,
                    state=ContainerState(str(item["state"])),
                    priority=_whole(item.get("priority")),
                    locked_by=str(item.get("locked_by_uuid") or ""),
                    version=self.ticket(),
                )
            )

    def pass_over(self, items: Iterable[Mapping[str, object]], *, ticket: int) -> None:
        """Learn from the containers that the answer to a lock passes over: they were in this state
        after `ticket` was taken.
        """
        for item in items:
            old = self.get(str(item["uuid"]))
            if old is not None and old.waiting:
                self._learn(
                    replace(
                        old,
                        state=ContainerState(str(item["state"])),
                        priority=_whole(item.get("priority")),
                        locked_by=str(item.get("locked_by_uuid") or ""),
                        version=ticket,
                    )
                )

    def advance(self, uuid: str, *, old: str, new: str, locked_by: str = "") -> bool:
        """Learn from an event with the states before and after it, and who has locked the
        container, if the event tells that.

        Returns whether that was all there is to learn; if not, the record must be fetched.
        """
        record = self.get(uuid)
        if new not in _STATES:
            return False
        state = ContainerState(new)
        if record is None:
            return state is not ContainerState.QUEUED
        # Nothing to fetch: the answer to the own lock is on its way, with the chosen amounts.
        if state in HELD and uuid in self._locking:
            return True
        self.shared |= state is ContainerState.LOCKED and record.waiting
        if state in HELD and record.waiting and locked_by not in ("", self._token):
            # Newer than any answer under way, which may tell of the time before the lock.
            self._store(replace(record, state=state, locked_by=locked_by, version=self.ticket()))
            return True
        if state is ContainerState.RUNNING and record.waiting:
            # Perhaps by a lock of this dispatcher whose answer was lost.
            return False
        if _RANK[state] > _RANK[record.state]:
            self._store(replace(record, state=state))
            return True
        # An event that says nothing of the state may be a change of the priority: the record is
        # fetched.
        return record.final or (old != new and record.state is state)

    def forget(self, uuid: str) -> None:
        """Drop the record."""
        if self._fetches:
            self._forgotten[uuid] = self.ticket()
        self._drop(uuid)

    def _learn(self, record: TrackedContainer) -> None:
        old = self.get(record.uuid)
        if old is None and self._is_beyond(record):
            return
        # A known record that moves behind the window is kept: it may be locked already.
        known_version = self._forgotten.get(record.uuid, 0) if old is None else old.version
        # An event may be newer than the answer to a request sent before or after it. In any case a
        # container that has run does not wait again.
        back = (
            old is not None and record.state is not None and _RANK[record.state] < _RANK[old.state]
        )
        if known_version <= record.version and not back:
            self._store(record)

    def _store(self, record: TrackedContainer) -> None:
        self._drop(record.uuid)
        if record.waiting:
            self._waiting[record.uuid] = record
            self._entries = None
        else:
            self._others[record.uuid] = record

    def _drop(self, uuid: str) -> None:
        if self._waiting.pop(uuid, None) is not None:
            self._entries = None
        self._others.pop(uuid, None)


def place(item: Mapping[str, object]) -> Place:
    """The place in the queue of an item of a list."""
    return -_whole(item.get("priority")), str(item.get("created_at") or ""), str(item["uuid"])


def _read(
    item: Mapping[str, object],
    old: TrackedContainer | None,
    *,
    version: int,
    now: float,
    plans_disk: bool,
) -> TrackedContainer:
    limits, ranges = item.get("runtime_constraints"), item.get("constraint_ranges")
    sized, scheduling = _mapping(limits), _mapping(item.get("scheduling_parameters"))
    disk, image = 0, str(item.get("container_image") or "")
    if plans_disk:
        factor = disk_factor(scheduling)
        disk = resources.scratch(_mapping(item.get("mounts")), image, sized, factor=factor)
    nodes = max(1, _whole(scheduling.get("nodes", 1)))
    shares = nodes > 1 and scheduling.get(SHARE_VCPUS) is True
    need, fault = _size(limits, disk, nodes, shares_vcpus=shares)
    partitions, accepted = scheduling.get("partitions"), spot.Preemption.NEVER
    if scheduling.get(spot.PREEMPTIBLE) is True:
        accepted = spot.preemption(scheduling)
    return TrackedContainer(
        uuid=str(item["uuid"]),
        state=ContainerState(str(item["state"])),
        priority=_whole(item.get("priority")),
        created_at=str(item.get("created_at") or ""),
        locked_by=str(item.get("locked_by_uuid") or ""),
        need=need,
        # All containers of a gang are alike, so it has the least of a range.
        growth=resources.growth(ranges, sized)
        if ranges and isinstance(ranges, Mapping) and nodes == 1
        else Resources(),
        nodes=nodes,
        shares_vcpus=shares,
        ram=_whole(sized.get("ram")),
        fault=fault,
        partitions=tuple(str(partition) for partition in partitions)
        if isinstance(partitions, list)
        else (),
        gpu=requested_gpus(sized) if _mapping(sized.get("gpu")).get("device_count") else NO_GPU,
        internet=constraints.has_internet(sized),
        max_run_time=_whole(scheduling.get("max_run_time")),
        runs_workflow=scheduling.get("supervisor") is True,
        preemptible=accepted is not Preemption.NEVER,
        prefers=accepted is Preemption.PREFERRED,
        deadline=_seconds(scheduling.get(spot.DEADLINE)),
        run_time=_whole(scheduling.get(spot.RUN_TIME)),
        image=image,
        user=str(item.get("runtime_user_uuid") or ""),
        seen_at=now if old is None else old.seen_at,
        version=version,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _size(limits: object, disk: int, nodes: int, *, shares_vcpus: bool) -> tuple[Resources, str]:
    """The need and "", or nothing and the reason that it is unknown."""
    if not isinstance(limits, Mapping):
        return Resources(), "runtime_constraints: not an object"
    try:
        need = structs.replace(resources.need(limits), disk=disk)
        if nodes > 1:
            need = resources.gang_need(need, nodes, shares_vcpus=shares_vcpus)
        return need, ""
    except Invalid as error:
        return Resources(), error.message


def _seconds(moment: object) -> float:
    """An API time as seconds since 1970; 0.0 for a value that is none."""
    return parse_time(moment).timestamp() if isinstance(moment, str) and moment else 0.0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
