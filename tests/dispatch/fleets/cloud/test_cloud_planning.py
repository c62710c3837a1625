from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from lading.core.resources import GIB, Resources
from lading.core.scheduling import cloud_limits
from lading.core.scheduling.cloud_limits import CloudRules, Limits
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase
from lading.core.scheduling.instance_types import InstanceType
from lading.core.scheduling.planning import (
    Category,
    FleetWorker,
    Occupant,
    Snapshot,
    StartDecision,
    TrackedContainer,
)
from lading.dispatch.fleets.cloud.cloud_planning import CloudPlanning
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.machine import CloudMachine

KIND = InstanceType(name="t4", provider_type="t4", resources=Resources(4, 8 * GIB), price=1.0)


def machine(key: str, *, phase: InstancePhase = InstancePhase.IDLE, **more: object) -> CloudMachine:
    made = CloudMachine(
        key=key, type="t4", secret="s", kind=KIND, instance=Instance(id=f"i-{key}"), phase=phase
    )
    made.link = object() if phase is InstancePhase.IDLE else None  # type: ignore[assignment]
    for name, value in more.items():
        setattr(made, name, value)
    return made


def entry(uuid: str, vcpus: int = 1) -> TrackedContainer:
    return TrackedContainer(uuid=uuid, priority=1, created_at=uuid, need=Resources(vcpus, GIB))


class Desk:
    """One planning, asked again and again."""

    def __init__(
        self, *machines: CloudMachine, limits: Limits | None = None, most: int = 0
    ) -> None:
        self.planning = CloudPlanning(
            CloudRules(types=(KIND,), most_containers=most), prefix="new-"
        )
        self.machines = {one.key: one for one in machines}
        self.limits = limits or Limits()

    def starts(self, snapshot: Snapshot) -> tuple[StartDecision, ...]:
        self.decided = self.planning.decide(snapshot, self.machines, self.limits, now=0.0)
        for key, _ in self.decided.creates:
            self.machines[key] = machine(key, phase=InstancePhase.BOOTING)
        return self.decided.starts

    def why(self, snapshot: Snapshot, uuid: str) -> tuple[Category, str]:
        found = self.planning.explain(snapshot, self.machines)[uuid]
        return found.category, found.sentence


def at(name: str, *uuids: str, vcpus: int = 1) -> FleetWorker:
    there = tuple(Occupant(uuid=uuid, need=Resources(vcpus, GIB)) for uuid in uuids)
    return FleetWorker(id=name, capacity=KIND.resources, occupants=there)


def test_room_is_what_the_containers_there_leave() -> None:
    desk = Desk(machine("a"))
    assert desk.starts(Snapshot(queue=(entry("u"),), workers=(at("i-a", "x", vcpus=3),))) == (
        StartDecision("u", "i-a"),
    )
    assert desk.starts(Snapshot(queue=(entry("v"),), workers=(at("i-a", "x", "u", vcpus=2),))) == ()
    assert desk.planning.planner.promise("v") == "new-1"


def test_a_start_that_failed_leaves_the_room_as_it_was() -> None:
    desk, snapshot = Desk(machine("a")), Snapshot(queue=(entry("u", 4),), workers=(at("i-a"),))
    assert desk.starts(snapshot) == desk.starts(snapshot) == (StartDecision("u", "i-a"),)


def test_what_is_held_or_gone_is_not_planned_for() -> None:
    desk = Desk(machine("a"))
    assert (
        desk.starts(Snapshot(queue=(entry("u"),), workers=(at("i-a"),), held_back={"u": "a pause"}))
        == ()
    )
    assert desk.why(Snapshot(queue=(entry("u"),), held_back={"u": "a pause"}), "u") == (
        Category.HELD,
        "a pause",
    )
    del desk.machines["a"]
    desk.starts(Snapshot())
    assert not desk.planning.planner.rooms


def test_vms_that_are_held_or_going_count_but_take_nothing() -> None:
    desk = Desk(
        machine("a", behavior=Behavior.HOLD), machine("b", phase=InstancePhase.SHUTDOWN),
        machine("c", kind=None), limits=Limits(most=3),
    )  # fmt: skip
    snapshot = Snapshot(queue=(entry("u"),))
    assert desk.starts(snapshot) == ()
    assert desk.decided.creates == ()
    assert desk.why(snapshot, "u")[0] is Category.QUOTA


def test_a_limit_of_containers_on_one_vm_is_kept() -> None:
    desk = Desk(machine("a"), most=2)
    queue = tuple(entry(f"u{n}") for n in range(3))
    assert len(desk.starts(Snapshot(queue=queue, workers=(at("i-a", "x"),)))) == 1


def test_the_reason_is_that_of_the_last_decision() -> None:
    desk, snapshot = (
        Desk(),
        Snapshot(queue=(entry("u"), entry("v", 9)), workers=(at("i-z", "running"),)),
    )
    desk.starts(snapshot)
    assert desk.why(snapshot, "u") == (
        Category.BOOTING,
        "Waiting for a t4 instance to boot (i-new-1).",
    )
    desk.machines["new-1"].fault = "refused"
    assert desk.why(snapshot, "u")[1].endswith("(i-new-1); last: refused.")
    desk.machines.clear()
    assert desk.why(snapshot, "u")[1] == "Waiting for an instance to boot."
    assert desk.why(snapshot, "v")[0] is Category.TOO_LARGE
    assert desk.why(snapshot, "running") == (Category.PREPARING, "Preparing to run on i-z.")


def test_the_room_that_is_kept_is_named() -> None:
    desk = Desk(machine("a"), limits=Limits(most=1))
    snapshot = Snapshot(queue=(entry("u", 4), entry("v", 3)), workers=(at("i-a", "x", vcpus=2),))
    desk.starts(snapshot)
    assert desk.why(snapshot, "u")[1].endswith("are in use; i-a is being kept free for it.")
    assert desk.why(snapshot, "v")[1].endswith("are in use; i-a is being kept free for u.")


def test_scarce_types_are_named() -> None:
    desk = Desk(
        limits=cloud_limits.capacity_refused(Limits(), group="t4", why="none left", now=0.0)
    )
    snapshot = Snapshot(queue=(entry("u"),))
    desk.starts(snapshot)
    said = "no instance of an eligible type (t4) can be had: the cloud has none to give: none left."
    assert desk.why(snapshot, "u") == (Category.CAPACITY, f"Waiting in queue at position 1: {said}")


def test_supervisors_are_told_apart() -> None:
    desk = Desk(limits=Limits(most=2))
    snapshot = Snapshot(
        workflow_runners=tuple(replace(entry(one, 4), runs_workflow=True) for one in "st")
    )
    desk.starts(snapshot)
    assert len(desk.decided.creates) == 1
    assert "workflows have all the instances" in desk.why(snapshot, "t")[1]


def gang(uuid: str, vcpus: int, nodes: int) -> TrackedContainer:
    return replace(entry(uuid), need=Resources(vcpus * nodes, GIB), nodes=nodes)


def test_a_gang_stays_on_one_vm_where_a_type_holds_it() -> None:
    desk = Desk(machine("a"))
    assert desk.starts(Snapshot(queue=(gang("g", 1, 4),))) == (StartDecision("g", "i-a"),)


def test_a_gang_that_no_type_holds_waits_for_several_and_starts_on_all_at_once() -> None:
    desk = Desk(machine("a"), limits=Limits(most=3))
    snapshot = Snapshot(queue=(gang("g", 2, 5),))
    assert desk.starts(snapshot) == ()
    assert (len(desk.decided.creates), desk.decided.kept_rooms) == (2, (("a", "g"),))
    assert desk.why(snapshot, "g") == (
        Category.BOOTING,
        "Waiting for 2 of its 3 instances to boot.",
    )
    for name in ("new-1", "new-2"):
        desk.machines[name] = machine(name, fault="asleep")
    desk.machines["new-2"].phase = InstancePhase.BOOTING
    assert desk.starts(snapshot) == ()
    said = "Waiting for 1 of its 3 instances to boot; last of i-new-2: asleep."
    assert desk.why(snapshot, "g") == (Category.BOOTING, said)
    desk.machines["new-2"] = machine("new-2")
    assert desk.starts(snapshot) == (
        StartDecision("g", "i-a", others=("i-a", "i-new-1", "i-new-1", "i-new-2")),
    )


def test_what_a_gang_lacks_is_said() -> None:
    desk = Desk(machine("a"), limits=Limits(most=3))
    snapshot = Snapshot(
        queue=(gang("g", 4, 3), gang("h", 4, 4), gang("i", 5, 2)), workers=(at("i-a", "x"),)
    )
    desk.starts(snapshot)
    lacking = (
        "3 more are needed at once, there are 1, and there may be 3 (MaxInstances); "
        "i-a is being kept free for it"
    )
    said = f"Waiting in queue at position 1: no further instance can be had: {lacking}."
    assert desk.why(snapshot, "g") == (Category.QUOTA, said)
    said = (
        "Its 4 ranks need 4 instances at a time, and there may be 3 (MaxInstances). "
        "It stays queued."
    )
    assert desk.why(snapshot, "h") == (Category.TOO_LARGE, said)
    assert (
        "No instance type can hold one of its 2 ranks: each needs 5 VCPUs"
        in desk.why(snapshot, "i")[1]
    )


SPOT = structs.replace(KIND, name="t4.spot", price=0.3, preemptible=True)


def prefers(uuid: str, **more: object) -> TrackedContainer:
    return replace(entry(uuid), preemptible=True, prefers=True, **more)  # type: ignore[arg-type]


class SpotDesk(Desk):
    """A cloud with a preemptible type; `wall` is the time in seconds since 1970."""

    def __init__(self, *machines: CloudMachine, limits: Limits | None = None) -> None:
        super().__init__(*machines, limits=limits)
        self.planning = CloudPlanning(CloudRules(types=(KIND, SPOT)), prefix="new-")
        self.wall = 1e9

    def makes(self, *queue: TrackedContainer) -> list[str]:
        decided = self.planning.decide(
            Snapshot(queue=queue), self.machines, self.limits, now=1.0, wall=self.wall
        )
        for key, name in decided.creates:
            kind = SPOT if name == SPOT.name else KIND
            self.machines[key] = machine(key, phase=InstancePhase.BOOTING, kind=kind, type=name)
        return [name for _, name in decided.creates]


AVOIDED = Limits(avoided={"t4": cloud_limits.Ban(100.0, 99.0, "t4 was taken away")})
SCARCE = Limits(scarce={"t4-spot": cloud_limits.Ban(100.0, 99.0, "InsufficientCapacity")})


def test_a_preference_is_met_while_it_lasts() -> None:
    assert SpotDesk().makes(prefers("u")) == ["t4.spot"]
    for limits in (AVOIDED, SCARCE):
        desk = SpotDesk(limits=limits)
        assert desk.makes(prefers("u"), replace(prefers("v"), prefers=False)) == (
            ["t4", "t4.spot"] if limits is AVOIDED else ["t4"]
        )
        said = desk.why(Snapshot(queue=(prefers("u"),)), "u")[1]
        assert "Waiting for a t4 instance to boot" in said
        assert "no preemptible one: " in said
        # The VM that boots for it is not given up when the pause is over.
        desk.limits = Limits()
        assert desk.makes(prefers("u")) == []
        assert desk.why(Snapshot(queue=(prefers("u"),)), "u")[1] == said
        assert SpotDesk(limits=Limits()).makes(prefers("w")) == ["t4.spot"]


def test_without_preemptible_types_a_preference_is_no_obstacle() -> None:
    desk = Desk()
    desk.starts(Snapshot(queue=(prefers("u"),)))
    assert [name for _, name in desk.decided.creates] == ["t4"]


def test_a_preemptible_vm_that_is_free_is_used_though_its_type_is_avoided() -> None:
    desk = SpotDesk(machine("a", kind=SPOT, type="t4.spot"), limits=AVOIDED)
    first = Snapshot(queue=(prefers("u"),), workers=(at("i-a"),))
    # The rooms are known from the first look on.
    desk.starts(replace(first, queue=()))
    assert desk.starts(first) == (StartDecision("u", "i-a"),)


def test_a_deadline_that_comes_near_takes_the_promise_of_a_preemptible_vm() -> None:
    desk = SpotDesk()
    one = prefers("u", deadline=1e9 + 5000, run_time=600)
    assert desk.makes(one) == ["t4.spot"]
    assert desk.makes(one) == []
    desk.wall += 4000
    assert desk.makes(one) == ["t4"]
    assert "its deadline is near" in desk.why(Snapshot(queue=(one,)), "u")[1]
    assert SpotDesk().makes(replace(one, run_time=0)) == ["t4"]
