from __future__ import annotations

from lading.core.scheduling import cloud_limits
from lading.core.scheduling.cloud_limits import Limits


def test_nothing_is_limited_at_first() -> None:
    free = Limits()
    assert (free.over_quota(5000, now=0.0), free.slowed(now=0.0), free.lacks("m4", now=0.0)) == (
        "",
        "",
        "",
    )
    assert free.next_moment(now=0.0) is None


def test_the_configured_number_counts_always() -> None:
    limited = Limits(most=2)
    assert limited.over_quota(1, now=0.0) == ""
    assert limited.over_quota(2, now=0.0) == "2 of at most 2 instances (MaxInstances) are in use"


def test_a_quota_holds_until_there_are_fewer_or_a_while_has_passed() -> None:
    told = cloud_limits.quota_refused(Limits(), machines=3, why="InstanceLimitExceeded", now=10.0)
    assert (
        told.over_quota(3, now=11.0) == "the cloud account is at its quota: InstanceLimitExceeded"
    )
    assert told.over_quota(2, now=11.0) == ""
    assert told.over_quota(3, now=70.0) == ""
    assert told.next_moment(now=11.0) == 70.0


def test_a_quota_without_any_machine_holds_for_a_minute() -> None:
    told = Limits()
    for now in (0.0, 100.0):
        told = cloud_limits.quota_refused(told, machines=0, why="no", now=now)
        assert told.over_quota(0, now=now + 59.0)
        assert not told.over_quota(0, now=now + 60.0)


def test_refusals_in_a_row_take_longer_each_time_up_to_a_limit() -> None:
    told, lengths = Limits(), []
    for _ in range(6):
        told = cloud_limits.capacity_refused(told, group="p5", why="none", now=0.0)
        lengths.append(told.scarce["p5"].length)
    assert lengths == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0]
    assert told.lacks("p5", now=1.0) == "the cloud has none to give: none"
    assert told.lacks("p5-spot", now=1.0) == ""


def test_the_cloud_may_say_until_when_it_wants_fewer_calls() -> None:
    told = cloud_limits.rate_refused(Limits(), until=30.0, why="slow down", now=10.0)
    assert told.slowed(now=29.0) == "the cloud asks for fewer calls: slow down"
    assert told.slowed(now=30.0) == ""
    assert (
        cloud_limits.rate_refused(told, until=None, why="slow down", now=40.0).next_moment(now=40.0)
        == 42.0
    )


def test_a_created_machine_ends_what_was_held_against_its_kind() -> None:
    assert cloud_limits.created(Limits(), group="m4") == Limits()
    told = cloud_limits.quota_refused(Limits(), machines=1, why="no", now=0.0)
    told = cloud_limits.capacity_refused(told, group="m4", why="none", now=0.0)
    told = cloud_limits.capacity_refused(told, group="p5", why="none", now=0.0)
    after = cloud_limits.created(told, group="m4")
    assert (after.quota_ban, set(after.scarce)) == (None, {"p5"})
