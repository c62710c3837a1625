"""What the dispatcher knows of the container records: a cache by uuid, fed by lists, events and
answers.

Several sources race with each other, so every piece of knowledge carries a version, a number that
only grows. Rules (docs/spec/dispatch, section Queue):

- A list or a fetch takes a ticket *before* its request is sent. It never overwrites what was
  learned later, such as the answer to a lock that was sent meanwhile, and never brings back what
  was forgotten meanwhile.
- The answer to a write of our own is the newest truth.
- An event may only move a state forward (to Running or to a final state, which never change back);
  whatever else an event says, the record is fetched.
- A uuid that was asked for and not returned has no record any more; that is knowledge too (`state`
  None).
- Of a long queue only its first part was looked at (`core.scheduling.queue_window`): a waiting
  container that comes after it is not learned of, and one that was learned of before is hidden from
  planning until a look reaches it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from lading.core import resources
from lading.core.containers.container import State
from lading.core.errors import Invalid
from lading.core.resources import Resources
from lading.core.scheduling import slurm_nice
from lading.core.scheduling.batch_planner import Entry
from lading.core.scheduling.instance_types import NO_GPU, Gpu, gpu_wish
from lading.core.scheduling.queue_window import Key, Window
from lading.dispatch.fleet import Interest, Order

FIELDS = (
    "uuid", "state", "priority", "created_at", "locked_by_uuid", "runtime_constraints",
    "constraint_ranges", "scheduling_parameters", "runtime_user_uuid",
)  # fmt: skip
DISK_FIELDS = ("mounts", "container_image")
"""What says beside them how much scratch disk a container may fill."""
FINAL = frozenset({State.COMPLETE, State.CANCELLED})
_STATES = frozenset(state.value for state in State)
_RANK: Mapping[State | None, int] = MappingProxyType(
    {
        None: 0,
        State.QUEUED: 0,
        State.LOCKED: 0,
        State.RUNNING: 1,
        State.COMPLETE: 2,
        State.CANCELLED: 2,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a dispatcher needs of one container record.

    `need` is None, and `fault` says why, when the record cannot be sized; `growth` is what it can
    be given beyond that, `ram` what of the need is its `ram` constraint. `supervises`: it runs a
    workflow. `version` orders what was learned; `state` None: there is no such record.
    """

    uuid: str
    state: State | None
    priority: int = 0
    created_at: str = ""
    locked_by: str = ""
    need: Resources | None = None
    growth: Resources = Resources()
    nodes: int = 1
    ram: int = 0
    fault: str = ""
    partitions: tuple[str, ...] = ()
    gpu: Gpu = NO_GPU
    max_run_time: int = 0
    supervises: bool = False
    preemptible: bool = False
    image: str = ""
    user: str = ""
    seen: float = 0.0
    version: int = 0

    @property
    def waiting(self) -> bool:
        """Whether it waits to be started."""
        return self.state is State.QUEUED and self.priority > 0

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL

    @property
    def entry(self) -> Entry | None:
        """What the planner sees of it."""
        if self.need is None:
            return None
        return Entry(
            uuid=self.uuid, priority=self.priority, created_at=self.created_at, need=self.need,
            seen=self.seen, growth=self.growth, partitions=frozenset(self.partitions),
            preemptible=self.preemptible, gpu=self.gpu, image=self.image, nodes=self.nodes,
        )  # fmt: skip

    @property
    def wanted(self) -> int:
        """How soon it should run; larger is sooner."""
        return slurm_nice.wanted(self.priority, self.created_at)

    @property
    def order(self) -> Order:
        """What it needs of where it runs."""
        return Order(
            need=self.need or Resources(),
            partitions=self.partitions,
            max_run_time=self.max_run_time,
            wanted=self.wanted,
            user=self.user,
            nodes=self.nodes,
        )

    def amounts(self, extra: Resources) -> dict[str, int]:
        """Constraints with `extra` beyond the need."""
        vcpus = self.need.vcpus if self.need is not None else 0
        return {"vcpus": vcpus + extra.vcpus, "ram": self.ram + extra.ram}


class Queue:
    """The records by uuid: `waiting` ones (queued with a priority), and `others`, which need a look
    at every step.
    """

    def __init__(self, *, token: str, plans_disk: bool = False) -> None:
        """`plans_disk`: the items that are merged have DISK_FIELDS, and scratch disk is part of
        what is needed.
        """
        self._token = token
        self._plans_disk = plans_disk
        self._version = 0
        self._waiting: dict[str, Record] = {}
        self._others: dict[str, Record] = {}
        self._fetches: set[int] = set()
        self._forgotten: dict[str, int] = {}
        self._entries: tuple[tuple[Entry, ...], tuple[Entry, ...]] | None = None
        self._made: dict[str, Entry | None] = {}
        self._locking: set[str] = set()
        self._window = self._supervisors_window = Window()

    @property
    def fields(self) -> tuple[str, ...]:
        """What has to be asked for."""
        return (*FIELDS, *DISK_FIELDS) if self._plans_disk else FIELDS

    @property
    def waiting(self) -> Mapping[str, Record]:
        """Records that wait to be started."""
        return self._waiting

    @property
    def others(self) -> Mapping[str, Record]:
        """All other records."""
        return self._others

    def entries(self) -> tuple[Entry, ...]:
        """The waiting records that can be sized and are not hidden, as the planner sees them,
        without supervisors.
        """
        return self._sorted_out()[0]

    def supervisors(self) -> tuple[Entry, ...]:
        """The same of supervisors, which run workflows."""
        return self._sorted_out()[1]

    def _sorted_out(self) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
        if self._entries is None:
            # Most of those that wait are as they were.
            made = self._made = {
                uuid: self._made.get(uuid) or one.entry for uuid, one in self._waiting.items()
            }
            sized = [
                (entry, one)
                for uuid, one in self._waiting.items()
                if (entry := made[uuid]) is not None
            ]
            shown = [(entry, one) for entry, one in sized if self._window_of(one).shows(entry)]
            self._entries = (
                tuple(entry for entry, record in shown if not record.supervises),
                tuple(entry for entry, record in shown if record.supervises),
            )
        return self._entries

    @property
    def window(self) -> Window:
        """What was looked at of those that wait, without supervisors."""
        return self._window

    @property
    def supervisors_window(self) -> Window:
        """What was looked at of supervisors."""
        return self._supervisors_window

    def show(self, window: Window, *, supervisors: Window) -> None:
        """A look has gone so far; what it found is to be merged."""
        self._window, self._supervisors_window = window, supervisors
        self._entries = None

    def hides(self, uuid: str) -> bool:
        """Whether it waits beyond what was looked at."""
        record = self._waiting.get(uuid)
        return record is not None and self._is_beyond(record)

    def _is_beyond(self, record: Record) -> bool:
        window = self._window_of(record)
        if window.horizon is None or not record.waiting:
            return False
        entry = record.entry
        return entry is not None and not window.shows(entry)

    def _window_of(self, record: Record) -> Window:
        return self._supervisors_window if record.supervises else self._window

    def get(self, uuid: str) -> Record | None:
        """The record, if anything is known of it."""
        return self._waiting.get(uuid) or self._others.get(uuid)

    def interest(self, uuid: str) -> Interest | None:
        """What a fleet may want to know of a container that it has a process of."""
        record = self.get(uuid)
        if record is None or record.state is None:
            return None
        return Interest(
            wanted=record.wanted, final=record.final, need=record.need or Resources(),
            state=record.state.value, priority=record.priority, created_at=record.created_at,
            seen=record.seen, vram=record.gpu.vram,
        )  # fmt: skip

    def uuids(self) -> set[str]:
        """All that is known."""
        return self._waiting.keys() | self._others.keys()

    def holds(self, record: Record) -> bool:
        """Whether this dispatcher's token has locked it."""
        return record.locked_by == self._token

    def ticket(self) -> int:
        """A version newer than everything known."""
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
            oldest = min(self._fetches, default=self._version)
            self._forgotten = {
                uuid: version for uuid, version in self._forgotten.items() if version > oldest
            }

    @contextmanager
    def locking(self, uuid: str) -> Iterator[None]:
        """While a lock of our own is asked for: the answer tells more than the event, which often
        comes before it.
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
        found = set()
        for item in items:
            uuid = str(item["uuid"])
            found.add(uuid)
            self._learn(
                _read(item, self.get(uuid), version=ticket, now=now, plans_disk=self._plans_disk)
            )
        for uuid in asked:
            if uuid not in found:
                self._learn(Record(uuid=uuid, state=None, version=ticket))

    def answer(self, item: Mapping[str, object]) -> None:
        """Learn from the answer to a write of our own about a known container."""
        old = self.get(str(item["uuid"]))
        if old is not None:
            given = item.get("runtime_constraints")
            disk = old.need.disk if old.need is not None else 0
            need, fault = (
                _size(given, disk, old.nodes) if given is not None else (old.need, old.fault)
            )
            self._learn(
                replace(
                    old,
                    need=need,
                    fault=fault,
                    state=State(str(item["state"])),
                    priority=_whole(item.get("priority")),
                    locked_by=str(item.get("locked_by_uuid") or ""),
                    version=self.ticket(),
                )
            )

    def advance(self, uuid: str, *, old: str, new: str) -> bool:
        """Learn from an event with the states before and after it.

        Returns whether that was all there is to learn; if not, the record must be fetched.
        """
        record = self.get(uuid)
        if new not in _STATES:
            return False
        state = State(new)
        if record is None:
            return state is not State.QUEUED
        if state is State.LOCKED and uuid in self._locking:
            return True
        if _RANK[state] > _RANK[record.state]:
            self._store(replace(record, state=state))
            return True
        return record.final or (old != new and record.state is state)

    def forget(self, uuid: str) -> None:
        """Drop what is known of it."""
        if self._fetches:
            self._forgotten[uuid] = self.ticket()
        self._drop(uuid)

    def _learn(self, record: Record) -> None:
        old = self.get(record.uuid)
        if old is None and self._is_beyond(record):
            return
        known = self._forgotten.get(record.uuid, 0) if old is None else old.version
        # An event may have told more than the answer to a request that was sent before it, or
        # after: whichever way, what has run does not wait again.
        back = (
            old is not None and record.state is not None and _RANK[record.state] < _RANK[old.state]
        )
        if known <= record.version and not back:
            self._store(record)

    def _store(self, record: Record) -> None:
        self._drop(record.uuid)
        if record.waiting:
            self._waiting[record.uuid] = record
            self._entries = None
        else:
            self._others[record.uuid] = record

    def _drop(self, uuid: str) -> None:
        if self._waiting.pop(uuid, None) is not None:
            self._made.pop(uuid, None)
            self._entries = None
        self._others.pop(uuid, None)


def place(item: Mapping[str, object]) -> Key:
    """The place in the queue of an item of a list."""
    return -_whole(item.get("priority")), str(item.get("created_at") or ""), str(item["uuid"])


def _read(
    item: Mapping[str, object], old: Record | None, *, version: int, now: float, plans_disk: bool
) -> Record:
    constraints, ranges = item.get("runtime_constraints"), item.get("constraint_ranges")
    sized, scheduling = _mapping(constraints), _mapping(item.get("scheduling_parameters"))
    disk, image = 0, str(item.get("container_image") or "")
    if plans_disk:
        disk = resources.scratch(_mapping(item.get("mounts")), image, sized)
    nodes = max(1, _whole(scheduling.get("nodes", 1)))
    need, fault = _size(constraints, disk, nodes)
    partitions = scheduling.get("partitions")
    return Record(
        uuid=str(item["uuid"]),
        state=State(str(item["state"])),
        priority=_whole(item.get("priority")),
        created_at=str(item.get("created_at") or ""),
        locked_by=str(item.get("locked_by_uuid") or ""),
        need=need,
        # All containers of a gang are alike, so it has the least of a range.
        growth=resources.growth(ranges, sized)
        if isinstance(ranges, Mapping) and nodes == 1
        else Resources(),
        nodes=nodes,
        ram=_whole(sized.get("ram")),
        fault=fault,
        partitions=tuple(str(one) for one in partitions) if isinstance(partitions, list) else (),
        gpu=gpu_wish(sized),
        max_run_time=_whole(scheduling.get("max_run_time")),
        supervises=scheduling.get("supervisor") is True,
        preemptible=scheduling.get("preemptible") is True,
        image=image,
        user=str(item.get("runtime_user_uuid") or ""),
        seen=now if old is None else old.seen,
        version=version,
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _size(constraints: object, disk: int, nodes: int) -> tuple[Resources | None, str]:
    if not isinstance(constraints, Mapping):
        return None, "runtime_constraints: not an object"
    try:
        return resources.gang_need(replace(resources.need(constraints), disk=disk), nodes), ""
    except Invalid as error:
        return None, error.message


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
