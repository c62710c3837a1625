from __future__ import annotations

from lading.core.scheduling.cloud_limits import QUIET, Pressure, observe


def test_at_first_any_number_may_run_or_the_estimate() -> None:
    assert Pressure().left(1000) is None
    assert Pressure(most=8).left(3) == 5
    assert Pressure(most=8).left(9) == 0


def test_a_busy_api_gets_one_container_fewer_than_run_but_never_none() -> None:
    once = observe(Pressure(), busy_at=5.0, running=20, now=100.0)
    assert once.most == 19
    assert observe(once, busy_at=5.0, running=19, now=101.0) == once
    assert observe(once, busy_at=6.0, running=1, now=102.0).most == 1


def test_after_a_quiet_while_a_tenth_more_may_run() -> None:
    once = observe(Pressure(), busy_at=5.0, running=20, now=100.0)
    assert once.next_moment(now=100.0) == 100.0 + QUIET
    later = observe(once, busy_at=5.0, running=19, now=100.0 + QUIET)
    assert later.most == 21
    assert later.next_moment(now=100.0 + QUIET) is None
    # With few that run it does not shrink.
    assert observe(later, busy_at=5.0, running=2, now=500.0).most == 21


def test_an_estimate_grows_at_once_while_the_api_is_not_busy() -> None:
    assert observe(Pressure(most=8), busy_at=0.0, running=8, now=0.0).most == 9
    assert Pressure(most=8).next_moment(now=0.0) is None
