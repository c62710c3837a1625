"""Between the snapshots of the dispatch loop and the planner of the fleet: what waits, what room
there is, and why.

The planner keeps its tables from one snapshot to the next; only differences are told to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lading.core.resources import Resources, rank_need, total
from lading.core.scheduling.api_backpressure import Pressure, observe
from lading.core.scheduling.batch_planner import (
    Category,
    Entry,
    Plan,
    Snapshot,
    Start,
    Status,
    order,
    prepared,
)
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.cloud_plan import Block, Decision, Rules, Waiting
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.gang_placement import Room
from lading.core.scheduling.instance_lifecycle import Behavior, Phase
from lading.core.scheduling.instance_types import Shape, nearest, on_machine
from lading.dispatch.fleet import Process
from lading.dispatch.fleets.cloud.machine import Machine

# Places on a VM without a limit.
_ANY = 1 << 30
_HELD_BACK = (Block.QUOTA, Block.SUPERVISORS, Block.BUSY)
_BLOCKS: Mapping[Block, tuple[Category, str]] = {
    Block.QUOTA: (Category.QUOTA, "no further instance can be had: {why}"),
    Block.RATE: (Category.CAPACITY, "instances are asked for again in a moment: {why}"),
    Block.CAPACITY: (
        Category.CAPACITY,
        "no instance of an eligible type ({types}) can be had: {why}",
    ),
    Block.BUSY: (Category.CAPACITY, "as many containers run as the API can take now"),
    Block.SUPERVISORS: (
        Category.CAPACITY,
        "workflows have all the instances that are set aside for them ({why});"
        " one has to end first",
    ),
}  # fmt: skip


class Demand:
    """Keeps a planner up to date. `extra_ram` is what a supervisor takes, `pressure` what the API
    is taken to bear.
    """

    def __init__(
        self, rules: Rules, *, extra_ram: int, prefix: str, pressure: Pressure | None = None
    ) -> None:
        self.pressure = pressure or Pressure()
        self.planner = Planner(rules, prefix=prefix)
        self.limits = Limits()
        self._rules = rules
        self._extra_ram = extra_ram
        self._entries: dict[str, tuple[Entry, bool]] = {}
        self._told: dict[str, Room] = {}
        self._seen: dict[str, tuple[object, Room]] = {}

    def decide(
        self, snapshot: Snapshot, machines: Mapping[str, Machine], limits: Limits, *, now: float
    ) -> tuple[Plan, Decision]:
        """What to start, and which VMs to make or let go. `machines` are by key."""
        self.limits = limits
        self._tell_waiting(snapshot)
        self._tell_rooms(snapshot, machines)
        running = len(snapshot.present)
        self.pressure = observe(
            self.pressure, busy_at=snapshot.overloaded_at, running=running, now=now
        )
        decided = self.planner.decide(
            limits, now=now, left=self.pressure.left(running + self.planner.promised)
        )
        names = {key: machine.name for key, machine in machines.items()}
        starts = tuple(
            Start(
                uuid,
                names[key],
                others=tuple(names[other] for other in decided.berths.get(uuid, ())[1:]),
            )
            for uuid, key in decided.starts
        )
        return Plan(starts=starts), decided

    def explain(self, snapshot: Snapshot, machines: Mapping[str, Machine]) -> dict[str, Status]:
        """Why each container waits, as the last decision left it."""
        found = prepared(snapshot.workers)
        position = 0
        apart = {entry.uuid for entry in snapshot.supervisors}
        for entry in sorted((*snapshot.queue, *snapshot.supervisors), key=order):
            if entry.uuid in found:
                continue
            if entry.uuid in snapshot.held:
                found[entry.uuid] = Status(Category.HELD, snapshot.held[entry.uuid])
                continue
            position += 1
            known = self.planner.waiting.get(entry.uuid)
            shape = (
                self._shape(entry, supervisor=entry.uuid in apart) if known is None else known[0]
            )
            found[entry.uuid] = self._why(entry.uuid, shape, machines, position)
        return found

    def forget(self, key: str) -> None:
        """A VM is gone, or never came."""
        self._told.pop(key, None)
        self._seen.pop(key, None)
        self.planner.drop(key)

    def count_held_back(self) -> int:
        """How many containers wait for the quota, for the API or for workflows to end."""
        blocks = (
            self.planner.blocked(shape)
            for uuid, (shape, _) in self.planner.waiting.items()
            if not self.planner.promise(uuid)
        )
        return sum(one is not None and one[0] in _HELD_BACK for one in blocks)

    def tally(
        self,
        machines: Iterable[Machine],
        places: Mapping[str, Machine],
        processes: Mapping[str, Process],
    ) -> tuple[tuple[str, str, int], ...]:
        """How many containers there are in each state, by the cheapest type that can hold them."""
        tally = Counter[tuple[str, str]]()
        for uuid, (shape, _) in self.planner.waiting.items():
            if uuid not in places:
                tally["Queued", next((one.name for one in self.planner.eligible(shape)), "")] += 1
        for machine in machines:
            for uuid in machine.containers | machine.expected:
                if places.get(uuid, machine) is not machine:
                    # A gang counts where its supervisor is.
                    continue
                process = processes.get(uuid)
                tally[
                    "Locked" if process is None else "Running" if process.alive else "Ended",
                    machine.type,
                ] += 1
        return tuple((state, type_, number) for (state, type_), number in sorted(tally.items()))

    def _why(
        self, uuid: str, shape: Shape, machines: Mapping[str, Machine], position: int
    ) -> Status:
        promised = self.planner.promise(uuid)
        if promised:
            several = set(self.planner.berths(uuid))
            ready = sum(self.planner.rooms[key].ready for key in several)
            return _booting(machines.get(promised), several=len(several), ready=ready)
        blocked = self.planner.blocked(shape)
        where = f"Waiting in queue at position {position}"
        if blocked is None:
            return Status(Category.CAPACITY, f"{where}.", "for an instance")
        block, why = blocked
        if block is Block.NO_TYPE:
            return Status(
                Category.TOO_LARGE, nearest(shape, self._rules.types) + " It stays queued."
            )
        if block is Block.TOO_MANY:
            ranks = f"Its {shape.nodes} ranks need {why} instances at a time"
            most = f"there may be {self.limits.most} (MaxInstances)"
            return Status(Category.TOO_LARGE, f"{ranks}, and {most}. It stays queued.")
        category, words = _BLOCKS[block]
        types = ", ".join(one.name for one in self.planner.eligible(shape))
        head = self.planner.guarded
        kept = ""
        if block is Block.QUOTA and head is not None and head[1] in machines:
            mine = head[0] == uuid
            kept = f"; {machines[head[1]].name} is being kept free for {'it' if mine else head[0]}"
        said = words.format(why=why, types=types)
        return Status(category, f"{where}: {said}{kept}.", f"({said})")

    def _tell_waiting(self, snapshot: Snapshot) -> None:
        taken = snapshot.present | snapshot.held.keys()
        wanted: dict[str, tuple[Entry, bool]] = {}
        for entries, supervisor in ((snapshot.queue, False), (snapshot.supervisors, True)):
            for entry in entries:
                if entry.uuid not in taken:
                    wanted[entry.uuid] = entry, supervisor
        known = self.planner.waiting
        for uuid in [one for one in known if one not in wanted]:
            self.planner.remove(uuid)
        for uuid, (entry, supervisor) in wanted.items():
            if uuid not in known or self._entries.get(uuid) != (entry, supervisor):
                shape = self._shape(entry, supervisor=supervisor)
                self.planner.add(
                    Waiting(uuid, entry.priority, entry.created_at, shape, entry.image)
                )
        self._entries = wanted
        self.planner.count_supervisors(sum(len(worker.supervisors) for worker in snapshot.workers))

    def _shape(self, entry: Entry, *, supervisor: bool) -> Shape:
        need = on_machine(entry.need, extra_ram=self._extra_ram)
        whole = Shape(
            need=need, preemptible=entry.preemptible, gpu=entry.gpu, supervisor=supervisor
        )
        if entry.nodes == 1 or self.planner.eligible(whole):
            return whole
        each = on_machine(rank_need(entry.need, entry.nodes), extra_ram=self._extra_ram)
        return replace(whole, need=each, nodes=entry.nodes)

    def _tell_rooms(self, snapshot: Snapshot, machines: Mapping[str, Machine]) -> None:
        occupied = {
            worker.id: (*worker.occupants, *worker.supervisors) for worker in snapshot.workers
        }
        for key in [one for one in self.planner.rooms if one not in machines]:
            self.forget(key)
        for key, machine in machines.items():
            there = tuple(one.need for one in occupied.get(machine.name, ()))
            facts = (
                machine.phase, machine.behavior, machine.link is None, machine.broken,
                not machine.containers, len(machine.images), there, _is_lost(machine),
            )  # fmt: skip
            # Of thousands of VMs few have changed since the last time; whether one has is seen
            # sooner than its room.
            before = self._seen.get(key)
            if before is None or before[0] != facts or before[1] is not self.planner.rooms.get(key):
                needs = (on_machine(need, extra_ram=self._extra_ram) for need in there)
                self._tell(self._room(machine, needs, len(there)))
                self._seen[key] = facts, self.planner.rooms[key]

    def _tell(self, room: Room) -> None:
        known = self.planner.rooms.get(room.id)
        same = (
            known == room if room.ready else known is not None and self._told.get(room.id) == room
        )
        if not same:
            self._told[room.id] = room
            self.planner.put(room)

    def _room(self, machine: Machine, needs: Iterable[Resources], number: int) -> Room:
        capacity = machine.kind.resources if machine.kind is not None else Resources()
        most = self._rules.most_containers
        # A VM of an earlier dispatcher is waited for until the first attempt to reach it fails.
        coming = (
            not machine.ready
            and not machine.going
            and machine.behavior is Behavior.RUN
            and not _is_lost(machine)
        )
        return Room(
            machine.key,
            machine.type,
            capacity - total(needs),
            ready=machine.usable,
            empty=not machine.containers and not machine.posts and not number,
            places=most - number if most else _ANY,
            open=machine.usable or (coming and machine.kind is not None),
            images=frozenset(machine.images),
            stays=machine.behavior is Behavior.HOLD,
        )


def _is_lost(machine: Machine) -> bool:
    """Whether it was made by an earlier dispatcher and could not be reached so far."""
    return machine.phase is Phase.UNKNOWN and bool(machine.fault)


def _booting(machine: Machine | None, *, several: int = 1, ready: int = 0) -> Status:
    if several > 1:
        fault = (
            f"; last of {machine.name}: {machine.fault}"
            if machine is not None and machine.fault
            else ""
        )
        sentence = f"Waiting for {several - ready} of its {several} instances to boot{fault}."
        return Status(Category.BOOTING, sentence, f"for its {several} instances to boot")
    if machine is None:
        return Status(
            Category.BOOTING, "Waiting for an instance to boot.", "for an instance to boot"
        )
    name = f" ({machine.name})" if machine.instance is not None else ""
    fault = f"; last: {machine.fault}" if machine.fault else ""
    sentence = f"Waiting for a {machine.type} instance to boot{name}{fault}."
    return Status(Category.BOOTING, sentence, f"for a {machine.type} instance to boot")


def at_quota(limits: Limits, machines: int, *, now: float) -> bool:
    """Whether no further VM may be asked for."""
    return bool(limits.over_quota(machines, now=now))
