from __future__ import annotations

from msgspec import structs

from lading.core.resources import GIB, Resources
from lading.core.scheduling import cloud_limits
from lading.core.scheduling.cloud_limits import BlockReason, CloudRules, Limits
from lading.core.scheduling.instance_rooms import GangReservation, keep, lay_out
from lading.core.scheduling.instance_types import (
    ContainerShape,
    InstanceType,
    eligible,
    machines,
    nearest,
)
from tests.core.scheduling.test_cloud_planner import (
    TYPES,
    decide,
    gangs,
    kind,
    planner,
    room,
    starts,
    want,
)

GANG = ContainerShape(need=Resources(2, 2 * GIB), nodes=4)
RANKING = {"t4": 0, "t8": 1}
KINDS = {"t4": kind(4), "t8": kind(8)}


def test_few_vms_are_taken_ready_ones_first_and_one_with_the_image() -> None:
    half, booting = room("half", 8, free=2), room("booting", 8, ready=False)
    assert lay_out(GANG, [half, booting, room("whole", 8)], RANKING) == ("whole",) * 4
    assert lay_out(GANG, [half, booting], RANKING) == ("half", *("booting",) * 3)
    several = [room("a"), room("b"), room("c", images=frozenset({"image"}))]
    assert lay_out(GANG, several, RANKING, image="image") == ("c", "c", "a", "a")


def test_what_holds_no_rank_or_is_of_another_type_is_left_out() -> None:
    assert (
        lay_out(GANG, [room("a", 4, free=1), room("b", 4, places=0), room("c", 2)], RANKING) == ()
    )


def test_as_many_rooms_are_kept_as_it_takes() -> None:
    full, half, other = room("full", 4, free=0), room("half", 4, free=2), room("other", 2, free=0)
    assert keep(GANG, [full, half], KINDS, most=9, each=2, free=0) == GangReservation(
        frozenset({"full", "half"}), 0
    )
    assert keep(GANG, [full, half], KINDS, most=9, each=2, free=1) == GangReservation(
        frozenset({"half"}), 1
    )
    assert keep(GANG, [half, room("idle")], KINDS, most=9, each=2, free=1) == GangReservation(
        frozenset({"idle"}), 1
    )
    assert keep(GANG, [half, other], KINDS, most=9, each=2, free=0) == GangReservation(
        frozenset({"half", "other"}), 0
    )
    assert keep(GANG, [half, room("idle")], KINDS, most=9, each=2, free=0) == GangReservation(
        frozenset({"half", "idle"}), 0
    )


def test_nothing_is_kept_that_would_not_do() -> None:
    assert keep(GANG, [room("a")], KINDS, most=9, each=2, free=0) is None
    assert keep(GANG, [room("a"), room("b")], KINDS, most=1, each=1, free=1) is None
    assert (
        keep(GANG, [room("a"), room("b", stays=True, open=False)], KINDS, most=9, each=2, free=0)
        is None
    )


def test_what_leaves_or_boots_for_others_makes_place_one_day() -> None:
    for other in (room("b", 2, ready=False), room("b", open=False)):
        assert keep(GANG, [room("a"), other], KINDS, most=9, each=2, free=0) == GangReservation(
            frozenset({"a"}), 0
        )


def test_a_gang_is_judged_by_the_price_of_all_its_vms() -> None:
    large = InstanceType(
        name="large", provider_type="large", resources=Resources(8, 8 * GIB), price=2.0
    )
    small = structs.replace(large, name="small", resources=Resources(2, 2 * GIB), price=1.0)
    assert [machines(GANG, one) for one in (small, large)] == [4, 1]
    assert machines(GANG, large, most_containers=3) == 2
    assert eligible(GANG, (small, large)) == (large,)
    assert eligible(GANG, (small, large), price_factor=2.0) == (large, small)
    # Of equal prices the fewer VMs.
    assert eligible(GANG, (small, structs.replace(large, price=4.0)))[0].name == "large"
    assert "one of its 4 ranks: each needs 2 VCPUs" in nearest(GANG, (kind(1),))


def test_limits_say_how_many_more_there_may_be() -> None:
    limits = Limits(most=4)
    assert (limits.left(1, 9, now=0.0), limits.left(1, 2, now=0.0), limits.left(5, 2, now=0.0)) == (
        3,
        2,
        0,
    )
    assert limits.too_many(1, 3, now=0.0) == ""
    assert (
        limits.too_many(1, 4, now=0.0)
        == "4 more are needed at once, there are 1, and there may be 4 (MaxInstances)"
    )
    assert limits.too_many(4, 1, now=0.0) == "4 of at most 4 instances (MaxInstances) are in use"
    refused = cloud_limits.quota_refused(Limits(), machines=2, why="no", now=0.0)
    assert refused.too_many(1, 2, now=0.0).endswith("and the cloud account has a quota")


# The plan.


def test_a_gang_has_room_for_all_or_for_none() -> None:
    made = planner(want("g", 4, nodes=3), room("x"))
    decided = decide(made)
    assert (decided.starts, [type for _, type in decided.creates], decided.kept_rooms) == (
        (),
        ["t4", "t4"],
        (("x", "g"),),
    )
    assert (made.promised_rooms("g"), made.promise("g")) == (("x", "vm-1", "vm-2"), "vm-1")
    # What is kept for it nobody else gets, and nothing of it is let go.
    made.add(*want("small", 1, priority=999))
    assert made.rooms["x"].free == Resources()
    assert decide(made, Limits(most=3)).retire == ()
    made.put(room("vm-1"))
    made.put(room("vm-2"))
    decided = decide(made)
    assert gangs(decided).keys() == {"g"}
    assert (set(gangs(decided)["g"]), decided.kept_rooms) == ({"x", "vm-1", "vm-2"}, ())


def test_rooms_that_are_ready_are_taken_at_once() -> None:
    decided = decide(planner(want("g", 2, nodes=3), room("x"), room("y", free=2)))
    assert gangs(decided) == {"g": ("x", "x", "y")}


def test_room_that_is_free_sooner_is_taken_by_a_gang_too() -> None:
    made = planner(want("g", 4, nodes=2), room("x"))
    decide(made)
    made.put(room("y"))
    made.add(*want("small", 1, priority=999))
    assert starts(decide(made)) == (("small", "y"),)
    made.put(room("z"))
    assert gangs(decide(made)) == {"g": ("x", "z")}


def test_when_one_does_not_come_the_others_are_given_back() -> None:
    made = planner(want("g", 4, nodes=3), room("x"))
    decide(made)
    made.drop("vm-1")
    assert made.rooms["x"].free == made.rooms["vm-2"].free == Resources(4, 4 * GIB)
    assert decide(made).creates == (("vm-3", "t4"),)
    made.put(room("x", open=False))
    assert decide(made).creates == (("vm-4", "t4"),)
    made.remove("g")
    assert set(decide(made).unneeded) == {"vm-2", "vm-3", "vm-4"}


def test_the_next_gang_starts_though_the_one_before_still_waits() -> None:
    made = planner(want("g", 8, nodes=2, priority=999), want("h", 8, nodes=2))
    decide(made)
    assert (made.promised_rooms("g"), made.promised_rooms("h")) == (
        ("vm-1", "vm-2"),
        ("vm-3", "vm-4"),
    )
    made.put(room("vm-3", 8))
    made.put(room("vm-4", 8))
    assert gangs(decide(made)) == {"h": ("vm-3", "vm-4")}


def test_a_gang_waits_for_the_quota_behind_nobody() -> None:
    made = planner(want("g", 8, nodes=2, priority=999), want("small", 1), room("x", 2, free=1))
    one = Limits(most=2)
    assert starts(decide(made, one)) == ()
    # Both places are its own: the one that is free, and that of the VM that is of no use for it.
    assert made.guarded == ("g", "x")
    assert made.blocked(want("", 1).shape) == (
        BlockReason.QUOTA,
        "2 of at most 2 instances (MaxInstances) are in use",
    )
    made.put(room("x", 2))
    assert decide(made, one).retire == ("x",)
    made.drop("x")
    assert [type for _, type in decide(made, one).creates] == ["t8", "t8"]


def test_rooms_that_a_gang_waits_for_stay_though_they_are_empty() -> None:
    made = planner(want("g", 8, nodes=2, priority=999), room("x", 8), room("y", 8, free=1))
    decided = decide(made, Limits(most=2))
    assert (decided.retire, dict(decided.kept_rooms)) == ((), {"x": "g", "y": "g"})
    made.put(room("y", 8))
    assert gangs(decide(made, Limits(most=2))) == {"g": ("x", "y")}


def test_a_gang_that_can_never_have_its_rooms_keeps_none() -> None:
    made = planner(want("g", 8, nodes=3, priority=999), want("small", 1), room("x", 8))
    assert starts(decide(made, Limits(most=2))) == (("small", "x"),)
    assert made.blocked(want("", 8, nodes=3).shape) == (BlockReason.TOO_MANY, "3")
    refused = cloud_limits.quota_refused(Limits(), machines=1, why="no", now=0.0)
    made.add(*want("more", 1))
    assert starts(decide(made, refused)) == (("more", "x"),)
    found = made.blocked(want("", 8, nodes=3).shape)
    assert found is not None
    assert found[0] is BlockReason.QUOTA


def test_what_the_cloud_refuses_a_gang_waits_for() -> None:
    slow = cloud_limits.rate_refused(Limits(), until=9.0, why="slow", now=0.0)
    scarce = Limits(scarce={one.name: cloud_limits.Ban(9.0, 9.0, "none") for one in TYPES})
    for limits, block in ((slow, BlockReason.RATE), (scarce, BlockReason.CAPACITY)):
        made = planner(want("g", 8, nodes=2))
        assert decide(made, limits).creates == ()
        found = made.blocked(want("", 8, nodes=2).shape)
        assert found is not None
        assert found[0] is block


def test_a_kind_that_is_scarce_or_too_many_is_passed_over() -> None:
    one = want("g", 2, nodes=4)
    rules = CloudRules(types=TYPES, price_factor=9.0)
    assert [type for _, type in decide(planner(one, rules=rules), Limits(most=4)).creates] == ["t8"]
    scarce = cloud_limits.capacity_refused(Limits(), group="t8", why="none", now=0.0)
    assert [type for _, type in decide(planner(one, rules=rules), scarce).creates] == ["t4", "t4"]
