from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lading.core.resources import GIB, Resources, total
from lading.core.scheduling import cloud_limits
from lading.core.scheduling.cloud_limits import BlockReason, CloudPlan, CloudRules, Limits
from lading.core.scheduling.cloud_planner import Planner
from lading.core.scheduling.instance_rooms import InstanceRoom
from lading.core.scheduling.instance_types import ContainerShape, InstanceType
from lading.core.scheduling.planning import TrackedContainer


def kind(vcpus: int) -> InstanceType:
    name = f"t{vcpus}"
    return InstanceType(
        name=name, provider_type=name, resources=Resources(vcpus, vcpus * GIB), price=float(vcpus)
    )


TYPES = (kind(2), kind(4), kind(8))
NO_LIMITS = Limits()
PRIORITY = 500


class Wanted(NamedTuple):
    """A container that waits, and its shape."""

    container: TrackedContainer
    shape: ContainerShape


def want(
    name: str,
    vcpus: int = 1,
    *,
    priority: int = PRIORITY,
    runs_workflow: bool = False,
    at: str = "",
    nodes: int = 1,
    image: str = "",
) -> Wanted:
    need = Resources(vcpus, vcpus * GIB)
    return Wanted(
        TrackedContainer(
            uuid=name, priority=priority, created_at=at or f"t-{name}", nodes=nodes, image=image
        ),
        ContainerShape(need=need, runs_workflow=runs_workflow, nodes=nodes),
    )


def room(
    id: str, vcpus: int = 4, *, free: int | None = None, ready: bool = True, **more: object
) -> InstanceRoom:
    left = vcpus if free is None else free
    made = InstanceRoom(
        id, f"t{vcpus}", Resources(left, left * GIB), ready=ready, empty=left == vcpus
    )
    return replace(made, **more)  # type: ignore[arg-type]


def planner(*items: Wanted | InstanceRoom, rules: CloudRules | None = None) -> Planner:
    made = Planner(rules or CloudRules(types=TYPES, price_factor=4.0))
    for one in items:
        if isinstance(one, InstanceRoom):
            made.put(one)
        else:
            made.add(*one)
    return made


def decide(made: Planner, limits: Limits = NO_LIMITS) -> CloudPlan:
    return made.decide(limits, now=0.0)


def starts(decided: CloudPlan) -> tuple[tuple[str, str], ...]:
    assert not any(one.others for one in decided.starts)
    return tuple((one.uuid, one.worker) for one in decided.starts)


def gangs(decided: CloudPlan) -> dict[str, tuple[str, ...]]:
    return {one.uuid: (one.worker, *one.others) for one in decided.starts if one.others}


def test_nothing_to_do() -> None:
    assert decide(planner()) == CloudPlan()


def test_a_ready_machine_is_used_before_a_new_one_is_asked_for() -> None:
    assert starts(decide(planner(want("a"), room("x")))) == (("a", "x"),)


def test_several_go_onto_one_machine_where_they_leave_the_least() -> None:
    made = planner(
        want("a", 2), want("b", 2), room("big", 8), room("full", 4, free=2), room("mid", 4)
    )
    assert starts(decide(made)) == (("a", "full"), ("b", "mid"))


def test_of_rooms_of_one_type_one_with_the_image_is_taken() -> None:
    held = room("y", free=3, images=frozenset({"image"}))
    one = want("a", image="image")
    assert starts(decide(planner(one, room("x", free=1), held))) == (("a", "y"),)
    assert starts(decide(planner(want("a"), room("x", free=1), held))) == (("a", "x"),)
    # What it holds is no reason to take what is full, or a dearer type.
    assert starts(decide(planner(one, room("x", free=1), replace(held, free=Resources())))) == (
        ("a", "x"),
    )
    assert starts(decide(planner(one, room("w", 2), held))) == (("a", "w"),)


def test_a_container_that_has_started_takes_the_room_with_the_image_for_itself() -> None:
    held = room("y", 2, images=frozenset({"image"}))
    several = [want(name, image="image") for name in "abc"]
    made = planner(*several, held, room("x", 2))
    assert starts(decide(made)) == (("a", "y"), ("b", "y"), ("c", "x"))


def test_no_more_are_started_or_promised_a_room_than_are_let_in() -> None:
    made = planner(want("a"), want("b"), want("c"), room("x"))
    assert starts(made.decide(NO_LIMITS, now=0.0, left=2)) == (("a", "x"), ("b", "x"))
    assert made.blocked(want("c").shape) == (BlockReason.BUSY, "")
    made = planner(want("a"), want("b", 8))
    assert len(made.decide(NO_LIMITS, now=0.0, left=1).creates) == 1
    assert made.promised == 1
    assert made.decide(NO_LIMITS, now=0.0, left=0) == CloudPlan()


def test_the_cheapest_type_that_can_hold_it_is_asked_for_and_promised() -> None:
    made = planner(want("a", 3))
    assert decide(made).creates == (("vm-1", "t4"),)
    assert made.promise("a") == "vm-1"
    assert decide(made) == CloudPlan()


def test_those_that_come_later_go_onto_the_machine_that_boots() -> None:
    made = planner(want("a", 3))
    decide(made)
    made.add(*want("b", 1))
    assert decide(made).creates == ()
    assert made.promise("b") == "vm-1"
    made.add(*want("c", 1))
    assert decide(made).creates == (("vm-2", "t2"),)


def test_promises_are_kept_by_priority_when_it_is_ready() -> None:
    made = planner(want("a", 3), room("booting", 4, ready=False))
    decide(made)
    made.add(*want("urgent", 2, priority=999))
    assert decide(made).creates == (("vm-1", "t2"),)
    made.put(room("booting", 4))
    decided = decide(made)
    assert (starts(decided), decided.creates) == ((("urgent", "booting"),), (("vm-2", "t4"),))
    assert decided.unneeded == ("vm-1",)


def test_room_that_is_free_sooner_is_taken_and_the_promise_given_back() -> None:
    made = planner(want("a", 2), room("x", 2, free=0))
    decide(made)
    made.put(room("x", 2))
    decided = decide(made)
    assert starts(decided) == (("a", "x"),)
    assert decided.unneeded == ("vm-1",)
    assert made.rooms["vm-1"].free == Resources(2, 2 * GIB)


def test_a_machine_that_never_came_leaves_its_containers_waiting() -> None:
    made = planner(want("a", 2), want("b", 2))
    assert len(decide(made).creates) == 2
    made.drop("vm-1")
    made.drop("unheard of")
    assert decide(made).creates == (("vm-3", "t2"),)


def test_one_that_is_not_wanted_any_more_gives_its_promise_back() -> None:
    made = planner(want("a", 2))
    decide(made)
    made.remove("a")
    made.remove("a")
    assert decide(made).unneeded == ("vm-1",)
    assert made.waiting == {}


def test_a_change_of_priority_is_a_new_place_in_the_queue() -> None:
    made = planner(want("a", 4), want("b", 4), room("x"))
    made.add(*want("b", 4, priority=999))
    assert starts(decide(made)) == (("b", "x"),)


def test_a_closed_machine_and_a_full_one_take_nothing() -> None:
    rules = CloudRules(types=TYPES, most_containers=1)
    made = planner(want("a", 2), room("held", open=False), room("full", places=0), rules=rules)
    assert decide(made).creates == (("vm-1", "t2"),)
    assert made.rooms["vm-1"].places == 0


def test_a_machine_that_is_held_after_all_breaks_its_promises() -> None:
    made = planner(want("a", 2))
    decide(made)
    made.put(room("vm-1", 2, ready=False, open=False))
    assert decide(made).creates == (("vm-2", "t2"),)


def test_what_no_type_can_hold_blocks_nobody() -> None:
    giant = want("giant", 9, priority=999)
    made = planner(giant, want("a"), room("x"))
    assert starts(decide(made)) == (("a", "x"),)
    assert made.blocked(giant.shape) == (BlockReason.NO_TYPE, "")


def test_at_quota_the_head_waits_and_idle_machines_are_let_go() -> None:
    made = planner(want("large", 8), room("idle", 2), room("busy", 4, free=1))
    decided = decide(made, Limits(most=2))
    assert decided.creates == ()
    assert decided.retire == ("idle",)
    assert made.blocked(want("", 8).shape) == (
        BlockReason.QUOTA,
        "2 of at most 2 instances (MaxInstances) are in use",
    )


def test_nothing_is_let_go_because_the_cloud_has_none() -> None:
    scarce = cloud_limits.capacity_refused(NO_LIMITS, group="t8", why="none", now=0.0)
    made = planner(want("large", 8), room("idle", 2))
    assert decide(made, scarce).retire == ()
    found = made.blocked(want("", 8).shape)
    assert found is not None
    assert found[0] is BlockReason.CAPACITY


def test_idle_machines_are_let_go_when_the_cloud_wants_fewer_calls_until_it_gives_one() -> None:
    slow = cloud_limits.rate_refused(NO_LIMITS, until=9.0, why="slow", now=0.0)
    made = planner(want("large", 8), room("idle", 2))
    decided = made.decide(slow, now=0.0)
    assert (decided.creates, decided.retire) == ((), ("idle",))
    found = made.blocked(want("", 8).shape)
    assert found is not None
    assert found[0] is BlockReason.RATE
    again = made.decide(slow, now=9.0)
    assert (again.creates, again.retire) == ((("vm-1", "t8"),), ("idle",))
    assert made.decide(cloud_limits.created(slow, group="t8"), now=10.0).retire == ()
    assert planner(room("idle", 2)).decide(slow, now=0.0).retire == ()


def test_a_scarce_type_is_passed_over_for_the_next() -> None:
    scarce = cloud_limits.capacity_refused(NO_LIMITS, group="t2", why="none", now=0.0)
    assert decide(planner(want("a")), scarce).creates == (("vm-1", "t4"),)


def test_a_kept_room_takes_nothing_else_until_the_head_fits() -> None:
    made = planner(want("large", 8, priority=999), room("x", 8, free=4), room("y", 8, free=2))
    one = Limits(most=2)
    decide(made, one)
    assert made.guarded == ("large", "x")
    made.add(*want("small", 2))
    assert starts(decide(made, one)) == (("small", "y"),)
    made.add(*want("more", 2))
    assert starts(decide(made, one)) == ()
    made.put(room("x", 8))
    assert starts(decide(made, one)) == (("large", "x"),)
    assert made.guarded == ("more", "x")


def test_a_kept_room_of_another_type_is_emptied_and_let_go() -> None:
    made = planner(want("large", 8, priority=999), want("small", 1), room("x", 2, free=1))
    one = Limits(most=1)
    assert starts(decide(made, one)) == ()
    assert made.guarded == ("large", "x")
    made.put(room("x", 2))
    assert decide(made, one).retire == ("x",)
    made.drop("x")
    assert decide(made, one).creates == (("vm-1", "t8"),)


def test_a_kept_room_is_given_back_when_nobody_waits_for_it() -> None:
    made = planner(want("large", 8, priority=999), room("x", 8, free=4))
    one = Limits(most=1)
    decide(made, one)
    made.remove("large")
    made.add(*want("small", 2))
    assert starts(decide(made, one)) == (("small", "x"),)
    made.add(*want("large", 8, priority=999))
    decide(made, one)
    assert decide(made).creates == (("vm-1", "t8"),)
    assert made.guarded is None


def test_the_room_is_kept_for_whoever_is_the_head_now() -> None:
    made = planner(want("large", 8), room("x", 8, free=4), room("y", 8, free=3, open=False))
    one = Limits(most=2)
    decide(made, one)
    made.add(*want("urgent", 8, priority=999))
    decide(made, one)
    assert made.guarded == ("urgent", "x")


def test_a_kept_room_is_also_for_who_comes_first_and_was_promised_another() -> None:
    made = planner(want("urgent", 4, priority=999), room("busy", 4, free=1))
    one = Limits(most=2)
    assert decide(made, one).creates == (("vm-1", "t4"),)
    made.add(*want("later", 4))
    decide(made, one)
    assert (made.promise("urgent"), made.guarded) == ("vm-1", ("later", "busy"))
    made.put(room("busy", 4))
    assert starts(decide(made, one)) == (("urgent", "busy"),)
    assert starts(decide(made, one)) == ()
    made.put(room("vm-1", 4))
    assert starts(decide(made, one)) == (("later", "vm-1"),)


def test_a_room_that_changes_while_it_boots_still_counts_its_promises() -> None:
    made = planner(want("a", 2), room("x", 4, ready=False))
    decide(made)
    made.put(room("x", 4, ready=False))
    assert made.rooms["x"].free == Resources(2, 2 * GIB)
    made.put(room("y", 4))
    made.drop("y")


def test_a_room_that_is_gone_is_kept_for_nobody() -> None:
    made = planner(want("large", 8), room("x", 8, free=4))
    decide(made, Limits(most=1))
    made.drop("x")
    assert made.guarded is None


def test_no_room_can_be_kept_while_all_boot() -> None:
    made = planner(want("large", 8), room("x", 2, ready=False))
    decide(made, Limits(most=1))
    assert made.guarded is None


def test_supervisors_take_part_of_the_places_only() -> None:
    one = Limits(most=4)
    made = planner(*(want(f"s{n}", 2, runs_workflow=True) for n in range(4)), want("a", 2))
    assert len(decide(made, one).creates) == 3
    assert made.blocked(want("", 2, runs_workflow=True).shape) == (BlockReason.WORKFLOWS, "2")
    made.count_workflows(0)
    assert decide(made, one).creates == ()
    made.remove("s0")
    assert decide(made, one).creates == ()
    assert made.promise("s2")
    assert not made.promise("s3")


def test_supervisors_count_as_all_others_when_the_share_is_nothing() -> None:
    rules = CloudRules(types=TYPES, workflow_fraction=0.0)
    made = planner(*(want(f"s{n}", 2, runs_workflow=True) for n in range(4)), rules=rules)
    assert len(decide(made, Limits(most=4)).creates) == 4


def test_many_are_taken_in_at_once() -> None:
    made = planner(room("x", 2))
    made.extend([want("b"), want("a"), want("c", priority=999)])
    assert starts(decide(made)) == (("c", "x"), ("a", "x"))
    assert made.promise("b") == "vm-1"


def test_only_what_has_changed_is_taken_in_again() -> None:
    made = planner(rules=CloudRules(types=TYPES, price_factor=4.0, extra_ram=GIB))
    one = TrackedContainer(uuid="a", priority=1, need=Resources(1, GIB // 2))
    other = replace(one, uuid="b")
    made.follow([one, other])
    assert made.waiting["a"][0] == made.shape_of(one)
    assert made.waiting["a"][0].need.ram > one.need.ram + GIB
    decide(made)
    promised = made.promise("a")
    made.follow([replace(one, version=9), other])
    assert made.promise("a") == promised
    made.follow([replace(one, priority=2)])
    assert set(made.waiting) == {"a"}
    assert not made.promise("a")


def test_a_gang_is_spread_only_when_no_type_holds_all_of_it() -> None:
    made = planner()
    gang = TrackedContainer(uuid="g", need=Resources(4, GIB), nodes=2, runs_workflow=True)
    assert (made.shape_of(gang).nodes, made.shape_of(gang).runs_workflow) == (1, True)
    large = made.shape_of(replace(gang, need=Resources(12, GIB)))
    assert (large.nodes, large.need.vcpus) == (2, 6)


@given(st.integers(0, 1 << 30))
# A container starts in a room that is kept for another one, which then wants another room.
@example(5237)
# A container starts elsewhere than it was promised, and leaves room to one that waits.
@example(10282)
@settings(max_examples=60, deadline=None)
def test_whatever_happens_no_machine_holds_too_much_and_nobody_starts_twice(seed: int) -> None:
    World(seed).play(60)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("vcpus", "nodes", "most"), [(8, 1, 3), (8, 3, 4), (5, 4, 4), (3, 5, 5)])
def test_a_large_one_runs_although_small_ones_keep_coming(
    seed: int, vcpus: int, nodes: int, most: int
) -> None:
    world = World(seed, most=most)
    world.want(vcpus, priority=600, nodes=nodes)
    for turn in range(120):
        world.want(1 + turn % 2, priority=500)
        world.want(1, priority=500)
        world.turn()
        if "c0" in world.started:
            return
    raise AssertionError("it starved")


class World:
    """Containers that come, run and end on machines that come and go; checks after each turn."""

    def __init__(self, seed: int, *, most: int = 4) -> None:
        self.random = Random(seed)
        self.limits = Limits(most=most)
        self.planner = planner()
        self.machines: dict[str, tuple[str, bool]] = {}
        self.where: dict[str, tuple[tuple[str, ...], ContainerShape]] = {}
        self.started: set[str] = set()
        self.shapes: dict[str, ContainerShape] = {}
        self.types = {one.name: one for one in TYPES}

    def want(self, vcpus: int, *, priority: int, nodes: int = 1) -> None:
        one = want(
            f"c{len(self.shapes)}",
            vcpus,
            priority=priority,
            at=f"{len(self.shapes):09d}",
            nodes=nodes,
        )
        self.shapes[one.container.uuid] = one.shape
        self.planner.add(*one)

    def play(self, turns: int) -> None:
        for _ in range(turns):
            for _ in range(self.random.randrange(3)):
                nodes = self.random.choice((1, 1, 1, 2, 3, 5))
                self.want(
                    self.random.choice((1, 1, 2, 3, 8)),
                    priority=self.random.choice((1, 5, 9)),
                    nodes=nodes,
                )
            if self.planner.waiting and self.random.random() < 0.1:
                self.planner.remove(self.random.choice(sorted(self.planner.waiting)))
            self.turn()

    def turn(self) -> None:
        for name in [one for one, (_, ready) in self.machines.items() if not ready]:
            if self.random.random() < 0.3:
                self.machines[name] = (self.machines[name][0], True)
                self.put(name)
            elif self.random.random() < 0.1:
                self.lose(name)
        for uuid in [one for one in self.where if self.random.random() < 0.3]:
            machines, _ = self.where.pop(uuid)
            for name in machines:
                self.put(name)
        decided = self.planner.decide(self.limits, now=0.0)
        self.act(decided)
        self.check()
        again = self.planner.decide(self.limits, now=0.0)
        # Nothing is left to do, unless a machine was let go: then there is a place.
        assert decided.retire or (again.starts, again.creates) == ((), ())
        self.act(again)

    def act(self, decided: CloudPlan) -> None:
        for name, type in decided.creates:
            self.machines[name] = (type, False)
        for start in decided.starts:
            uuid = start.uuid
            assert uuid not in self.started
            self.started.add(uuid)
            shape, machines = self.shapes[uuid], (start.worker, *start.others)
            assert len(machines) == shape.nodes
            assert all(self.machines[name][1] for name in machines)
            self.where[uuid] = (machines, shape)
        for name in decided.retire:
            assert not self.is_busy(name)
            assert name not in {kept for kept, _ in decided.kept_rooms}
            self.lose(name)

    def is_busy(self, name: str) -> bool:
        return any(name in machines for machines, _ in self.where.values())

    def free(self, machine: str) -> Resources:
        left = self.types[self.machines[machine][0]].resources
        for machines, shape in self.where.values():
            left -= shape.need.times(machines.count(machine))
        return left

    def put(self, name: str) -> None:
        if name in self.machines:
            type, ready = self.machines[name]
            self.planner.put(
                InstanceRoom(name, type, self.free(name), ready=ready, empty=not self.is_busy(name))
            )

    def lose(self, name: str) -> None:
        del self.machines[name]
        self.where = {uuid: one for uuid, one in self.where.items() if name not in one[0]}
        self.planner.drop(name)

    def check(self) -> None:
        assert len(self.machines) <= self.limits.most
        assert set(self.planner.rooms) == set(self.machines)
        for name in self.machines:
            assert Resources().fits(self.free(name))
            left = self.planner.rooms[name].free
            assert left.vcpus >= 0
            assert left.ram >= 0
            if self.machines[name][1]:
                promised = (
                    self.planner.promised_rooms(uuid).count(name) for uuid in self.planner.waiting
                )
                needs = (shape.need for shape, _ in self.planner.waiting.values())
                kept = (need.times(number) for need, number in zip(needs, promised, strict=True))
                assert left == self.free(name) - total(kept)


def test_a_ready_room_that_is_large_enough_has_room() -> None:
    shape = want("a", 2).shape
    assert planner(room("x", 4)).has_room(shape)
    assert not planner(room("x", 4, free=1)).has_room(shape)
    assert not planner(room("x", 4, ready=False)).has_room(shape)
