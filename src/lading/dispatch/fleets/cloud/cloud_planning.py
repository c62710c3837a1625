"""Planning for a fleet of VMs: feeds the planner of `core` and words why containers wait.

The planner keeps its tables from one snapshot to the next; only differences are passed to it.
Waiting containers are also counted for the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lading.core.resources import Resources, total
from lading.core.scheduling import cloud_spot
from lading.core.scheduling.batch_explanation import prepared
from lading.core.scheduling.cloud_limits import (
    BlockReason,
    CloudPlan,
    CloudRules,
    Limits,
    Pressure,
    observe,
)
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase
from lading.core.scheduling.instance_rooms import ANY, InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, Gpu, nearest, on_machine
from lading.core.scheduling.planning import (
    Category,
    Snapshot,
    StartDecision,
    TrackedContainer,
    WaitStatus,
    by_place,
)
from lading.dispatch.fleet import SupervisorProcess
from lading.dispatch.fleets.cloud.machine import CloudMachine

_BOOTS = "an ordinary VM boots for it"
_HELD_BACK = (BlockReason.QUOTA, BlockReason.WORKFLOWS, BlockReason.BUSY)
_BLOCKS: Mapping[BlockReason, tuple[Category, str]] = {
    BlockReason.QUOTA: (Category.QUOTA, "no further instance can be had: {why}"),
    BlockReason.RATE: (Category.CAPACITY, "instances are asked for again in a moment: {why}"),
    BlockReason.CAPACITY: (
        Category.CAPACITY,
        "no instance of an eligible type ({types}) can be had: {why}",
    ),
    BlockReason.BUSY: (Category.CAPACITY, "as many containers run as the API can take now"),
    BlockReason.WORKFLOWS: (
        Category.CAPACITY,
        "workflows have all the instances that are set aside for them ({why});"
        " one has to end first",
    ),
}  # fmt: skip


class CloudPlanning:
    """Keeps a planner up to date. `pressure`: the assumed limit of the API."""

    def __init__(self, rules: CloudRules, *, prefix: str, pressure: Pressure | None = None) -> None:
        self.pressure = pressure or Pressure()
        self.planner = Planner(rules, prefix=prefix)
        self.limits = Limits()
        self.ordinary: dict[str, str] = {}
        """Why containers that prefer preemptible VMs get ordinary ones, by uuid."""
        self._rules = rules
        self._reasons: dict[str, str] = {}
        self._lacks: dict[tuple[Resources, int, Gpu, bool], str] = {}
        self._told_rooms: dict[str, InstanceRoom] = {}
        self._compared: dict[str, tuple[object, InstanceRoom]] = {}

    def decide(
        self,
        snapshot: Snapshot,
        machines: Mapping[str, CloudMachine],
        limits: Limits,
        *,
        now: float,
        wall: float = 0.0,
    ) -> CloudPlan:
        """The containers to start, and the VMs to create or remove. `machines` are by key; `wall`
        is now in seconds since 1970.

        The workers of `starts` are the names of VMs; all else is by key, as a VM has no name before
        the cloud has made it.
        """
        self.limits = limits
        present = snapshot.present
        waiting = (
            container
            for container in (*snapshot.queue, *snapshot.workflow_runners)
            # Held ones block nobody (`Snapshot`), so the planner does not see them.
            if container.uuid not in present and container.uuid not in snapshot.held_back
        )
        # Before the rooms are told: a ready room that is free now still counts for the choice.
        self._reasons, self.ordinary = self.ordinary, {}
        self._lacks.clear()
        self.planner.follow([self._chosen(container, now, wall) for container in waiting])
        self.planner.count_workflows(
            sum(len(worker.workflow_runners) for worker in snapshot.workers)
        )
        self._tell_rooms(snapshot, machines)
        running = len(present)
        self.pressure = observe(
            self.pressure, busy_at=snapshot.overloaded_at, running=running, now=now
        )
        decided = self.planner.decide(
            # Containers that were promised a VM will run when it is ready: they count for the limit
            # now.
            limits,
            now=now,
            left=self.pressure.left(running + self.planner.promised),
        )
        starts = tuple(
            StartDecision(
                start.uuid,
                machines[start.worker].name,
                others=tuple(machines[key].name for key in start.others),
            )
            for start in decided.starts
        )
        return replace(decided, starts=starts)

    def _chosen(self, container: TrackedContainer, now: float, wall: float) -> TrackedContainer:
        """The container as it is planned: one that prefers preemptible VMs for these alone, or for
        ordinary ones alone.
        """
        if not container.prefers:
            return container
        why = "its deadline is near" if cloud_spot.is_deadline_near(container, now=wall) else ""
        known = self.planner.waiting.get(container.uuid)
        if not why and known is not None and self.planner.promise(container.uuid):
            # A promise holds: a VM that boots for it is not given up for one that has to be made.
            why = "" if known[0].preemptible else self._reasons.get(container.uuid, _BOOTS)
        elif not why:
            why = self._lack(container, now)
        if not why:
            return container
        self.ordinary[container.uuid] = why
        return cloud_spot.ordinary(container)

    def _lack(self, container: TrackedContainer, now: float) -> str:
        """Reason that a container cannot have a preemptible VM now, or ""."""
        # Of containers that are alike one is looked at in each pass.
        key = (container.need, container.nodes, container.gpu, container.runs_workflow)
        why = self._lacks.get(key)
        if why is None:
            shape = self.planner.shape_of(container)
            why = cloud_spot.lack_of_spot(shape, self._rules, self.limits, now=now)
            # A preemptible VM that is there and free is used all the same.
            why = "" if shape.nodes == 1 and self.planner.has_room(shape) else why
            self._lacks[key] = why
        return why

    def explain(
        self, snapshot: Snapshot, machines: Mapping[str, CloudMachine]
    ) -> dict[str, WaitStatus]:
        """Status of each waiting container after the last decision."""
        statuses = prepared(snapshot.workers)
        position = 0
        for container in sorted((*snapshot.queue, *snapshot.workflow_runners), key=by_place):
            if container.uuid in statuses:
                continue
            if container.uuid in snapshot.held_back:
                statuses[container.uuid] = WaitStatus(
                    Category.HELD, snapshot.held_back[container.uuid]
                )
                continue
            position += 1
            # A container that came after the last decision has no shape there yet.
            planned = self.planner.waiting.get(container.uuid)
            shape = self.planner.shape_of(container) if planned is None else planned[0]
            statuses[container.uuid] = self._with_choice(
                container.uuid, self._why(container.uuid, shape, machines, position)
            )
        return statuses

    def _with_choice(self, uuid: str, status: WaitStatus) -> WaitStatus:
        why = self.ordinary.get(uuid)
        if why is None:
            return status
        sentence = f"{status.sentence.removesuffix('.')}; no preemptible one: {why}."
        return replace(status, sentence=sentence)

    def forget(self, key: str) -> None:
        """Remove a VM that is gone or was never created."""
        self._told_rooms.pop(key, None)
        self._compared.pop(key, None)
        self.planner.drop(key)

    def count_held_back(self) -> int:
        """Number of containers that wait for the quota, for the API or for workflows to end."""
        blocks = (
            self.planner.blocked(shape)
            for uuid, (shape, _) in self.planner.waiting.items()
            if not self.planner.promise(uuid)
        )
        return sum(block is not None and block[0] in _HELD_BACK for block in blocks)

    def tally(
        self,
        machines: Iterable[CloudMachine],
        places: Mapping[str, CloudMachine],
        processes: Mapping[str, SupervisorProcess],
    ) -> tuple[tuple[str, str, int], ...]:
        """Number of containers in each state, by the cheapest type that can hold them."""
        tally = Counter[tuple[str, str]]()
        for uuid, (shape, _) in self.planner.waiting.items():
            # A container with a place is locked or runs, though the planner may not have removed it
            # yet.
            if uuid not in places:
                tally["Queued", next((kind.name for kind in self.planner.eligible(shape)), "")] += 1
        for machine in machines:
            for uuid in machine.containers | machine.expected:
                # A gang counts where its supervisor is.
                if places.get(uuid, machine) is machine:
                    tally[_state_of(processes.get(uuid)), machine.type] += 1
        return tuple((state, type_, number) for (state, type_), number in sorted(tally.items()))

    def _why(
        self, uuid: str, shape: ContainerShape, machines: Mapping[str, CloudMachine], position: int
    ) -> WaitStatus:
        promised = self.planner.promise(uuid)
        if promised:
            several = set(self.planner.promised_rooms(uuid))
            ready = sum(self.planner.rooms[key].ready for key in several)
            return _booting(machines.get(promised), several=len(several), ready=ready)
        blocked = self.planner.blocked(shape)
        where = f"Waiting in queue at position {position}"
        # Its shape was not refused in the last pass: it came later.
        if blocked is None:
            return WaitStatus(Category.CAPACITY, f"{where}.", "for an instance")
        block, why = blocked
        if block is BlockReason.NO_TYPE:
            return WaitStatus(
                Category.TOO_LARGE, nearest(shape, self._rules.types) + " It stays queued."
            )
        if block is BlockReason.TOO_MANY:
            ranks = f"Its {shape.nodes} ranks need {why} instances at a time"
            most = f"there may be {self.limits.most} (MaxInstances)"
            return WaitStatus(Category.TOO_LARGE, f"{ranks}, and {most}. It stays queued.")
        category, words = _BLOCKS[block]
        types = ", ".join(kind.name for kind in self.planner.eligible(shape))
        head = self.planner.guarded
        reserved = ""
        if block is BlockReason.QUOTA and head is not None and head[1] in machines:
            mine = head[0] == uuid
            reserved = (
                f"; {machines[head[1]].name} is being kept free for {'it' if mine else head[0]}"
            )
        reason = words.format(why=why, types=types)
        return WaitStatus(category, f"{where}: {reason}{reserved}.", f"({reason})")

    def _tell_rooms(self, snapshot: Snapshot, machines: Mapping[str, CloudMachine]) -> None:
        occupied = {
            worker.id: (*worker.occupants, *worker.workflow_runners) for worker in snapshot.workers
        }
        # A list, since `forget` changes the table.
        for key in [room_key for room_key in self.planner.rooms if room_key not in machines]:
            self.forget(key)
        for key, machine in machines.items():
            occupant_needs = tuple(occupant.need for occupant in occupied.get(machine.name, ()))
            facts = (
                machine.phase, machine.behavior, machine.link is None, machine.broken,
                not machine.containers, len(machine.images), occupant_needs, _is_lost(machine),
            )  # fmt: skip
            # Few of thousands of VMs change between two passes, and to compare these facts costs
            # less than to compute the room of a VM.
            before = self._compared.get(key)
            if before is None or before[0] != facts or before[1] is not self.planner.rooms.get(key):
                needs = (
                    on_machine(need, extra_ram=self._rules.extra_ram) for need in occupant_needs
                )
                self._tell(self._room(machine, needs, len(occupant_needs)))
                self._compared[key] = facts, self.planner.rooms[key]

    def _tell(self, room: InstanceRoom) -> None:
        planned = self.planner.rooms.get(room.id)
        same = (
            # Of a room that is not ready the planner has counted promises, which the fleet does not
            # see: it is compared with what was told last.
            planned == room
            if room.ready
            else planned is not None and self._told_rooms.get(room.id) == room
        )
        if not same:
            self._told_rooms[room.id] = room
            self.planner.put(room)

    def _room(self, machine: CloudMachine, needs: Iterable[Resources], number: int) -> InstanceRoom:
        capacity = machine.kind.resources if machine.kind is not None else Resources()
        most = self._rules.most_containers
        # A VM of an earlier dispatcher is waited for until the first attempt to reach it fails.
        coming = (
            not machine.ready
            and not machine.going
            and machine.behavior is Behavior.RUN
            and not _is_lost(machine)
        )
        return InstanceRoom(
            machine.key,
            machine.type,
            capacity - total(needs),
            ready=machine.usable,
            # Containers that are on their way (`number`) are on no list of the VM yet.
            empty=not machine.containers and not machine.posts and not number,
            places=most - number if most else ANY,
            open=machine.usable or (coming and machine.kind is not None),
            images=frozenset(machine.images),
            stays=machine.behavior is Behavior.HOLD,
        )


def on_their_way(
    snapshot: Snapshot, decided: CloudPlan, machines: Mapping[str, CloudMachine]
) -> dict[str, set[str]]:
    """The uuids of the containers on each VM, planned ones included, by the name of the VM."""
    coming = {
        worker.id: {occupant.uuid for occupant in (*worker.occupants, *worker.workflow_runners)}
        for worker in snapshot.workers
    }
    for start in decided.starts:
        for name in (start.worker, *start.others):
            coming.setdefault(name, set()).add(start.uuid)
    for key, uuid in decided.kept_rooms:
        coming.setdefault(machines[key].name, set()).add(uuid)
    return coming


def _is_lost(machine: CloudMachine) -> bool:
    """Whether it was made by an earlier dispatcher and could not be reached so far."""
    return machine.phase is InstancePhase.UNKNOWN and bool(machine.fault)


def _booting(machine: CloudMachine | None, *, several: int = 1, ready: int = 0) -> WaitStatus:
    if several > 1:
        fault = (
            f"; last of {machine.name}: {machine.fault}"
            if machine is not None and machine.fault
            else ""
        )
        sentence = f"Waiting for {several - ready} of its {several} instances to boot{fault}."
        return WaitStatus(Category.BOOTING, sentence, f"for its {several} instances to boot")
    if machine is None:
        return WaitStatus(
            Category.BOOTING, "Waiting for an instance to boot.", "for an instance to boot"
        )
    name = f" ({machine.name})" if machine.instance is not None else ""
    fault = f"; last: {machine.fault}" if machine.fault else ""
    sentence = f"Waiting for a {machine.type} instance to boot{name}{fault}."
    return WaitStatus(Category.BOOTING, sentence, f"for a {machine.type} instance to boot")


def _state_of(process: SupervisorProcess | None) -> str:
    """The state of a container on a VM, as the metrics name it."""
    if process is None:
        return "Locked"
    return "Running" if process.alive else "Ended"
