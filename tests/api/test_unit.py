"""The unit of one transaction: its parts, its marks, and the features that hear of its writes."""

from __future__ import annotations

from collections.abc import Sequence

from lading.api.transaction import FOLLOWERS
from lading.api.unit import CancelRequest, ChangeFollower, Effect, Feature, Mark, Unit
from lading.core.records.schema import Record
from lading.testing.world import World


class Listener(ChangeFollower):
    """Keeps the changes of containers that it hears of."""

    of_containers = ("priority",)

    def __init__(self) -> None:
        self.heard: list[tuple[Record, Record]] = []

    async def container_changed(self, unit: Unit, old: Record, new: Record) -> None:
        self.heard.append((old, new))


async def unit_of(it: World, *followers: ChangeFollower) -> tuple[Unit, Record]:
    """A unit, and a container in its transaction."""
    uuid = (await it.submit())["container_uuid"]
    async with it.database.writing() as tx:
        unit = Unit(tx, it.app.services, user_uuid="u", followers=followers)
        row = await unit.container(uuid)
        assert row is not None
        await unit.write_container(row, {"priority": 7}, expected={"priority": row["priority"]})
        await unit.write_container(row, {}, expected={})
        await unit.write_request({}, {}, expected={})
    return unit, row


async def test_followers_hear_of_each_write_that_changes_something(it: World) -> None:
    listener = Listener()
    _, row = await unit_of(it, listener)
    ((old, new),) = listener.heard
    assert old == row
    assert (new["priority"], new["modified_by_user_uuid"]) == (7, "u")
    assert (await it.ok("GET", f"containers/{row['uuid']}"))["priority"] == 7


async def test_a_follower_hears_of_no_other_attribute_nor_without_its_feature(it: World) -> None:
    class Deaf(Listener):
        of_containers = ("state",)

    class Unused(Listener):
        feature = Feature.QUOTAS

    deaf, unused = Deaf(), Unused()
    await unit_of(it, deaf, unused)
    assert (deaf.heard, unused.heard) == ([], [])


async def test_a_site_uses_quotas_once_it_has_one(it: World) -> None:
    for has_quota in (False, True):
        if has_quota:
            subject = (await it.ok("GET", "users/current"))["uuid"]
            await it.ok("POST", "quotas", {"subject_uuid": subject, "vcpus": 5})
        unit, _ = await unit_of(it)
        async with it.database.writing() as tx:
            unit = Unit(tx, it.app.services, user_uuid="u")
            assert await unit.uses(Feature.QUOTAS) is has_quota
            assert not await unit.uses(Feature.SHARES)


async def test_parts_are_made_once(it: World) -> None:
    unit, _ = await unit_of(it)

    def make(of: Unit) -> list[Unit]:
        return [of]

    part = unit.part(make)
    assert part == [unit]
    assert unit.part(make) is part
    unit.forget_part(make)
    unit.forget_part(make)
    assert unit.part(make) is not part


async def test_marks_are_taken_once(it: World) -> None:
    unit, _ = await unit_of(it)
    request = await it.submit("late", parallel_group="a", max_parallel=2)
    unit.stale(["c", "d", "c"])
    unit.touch(["q"])
    unit.ended("r")
    unit.regroup({"max_parallel": 0})
    unit.regroup(request)
    unit.stop("s")
    assert unit.marked == set(Mark)
    assert (list(unit.take(Mark.STALE)), len(unit.take_groups())) == (["c", "d"], 1)
    assert [list(unit.take(mark)) for mark in (Mark.TOUCHED, Mark.ENDED, Mark.STOPPED)] == [
        ["q"],
        ["r"],
        ["s"],
    ]
    assert unit.marked == set()
    assert (unit.take(Mark.STALE), unit.take_groups()) == ({}, {})


async def test_a_group_alone_is_work_for_priorities(it: World) -> None:
    unit, _ = await unit_of(it)
    unit.regroup(await it.submit("late", parallel_group="a", max_parallel=2))
    assert unit.marked == {Mark.STALE}


async def test_a_follower_that_follows_nothing(it: World) -> None:
    unit, row = await unit_of(it)
    follower = ChangeFollower()
    await follower.request_changed(unit, {}, row)
    await follower.container_changed(unit, {}, row)
    settled: Sequence[Effect] = await follower.settle(unit)
    assert settled == ()
    assert CancelRequest("a") == CancelRequest("a")


def test_the_order_of_followers() -> None:
    """Cancellations and dependents come before priorities, which they make stale; quotas after the
    priorities, which say who waits for them.
    """
    assert [type(follower).__name__ for follower in FOLLOWERS] == [
        "SpentBudgets",
        "Endings",
        "ShareTickets",
        "Priorities",
        "Quotas",
    ]
