from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import IllegalTransition
from lading.core.scheduling.instance_lifecycle import (
    TABLE,
    Behavior,
    Event,
    Facts,
    Phase,
    Times,
    next_moment,
    step,
    verdict,
)

TIMES = Times(idle=60.0, booting=600.0, probe=300.0)


def test_the_usual_life() -> None:
    phase = Phase.CREATING
    for event in (
        Event.CREATED,
        Event.READY,
        Event.OCCUPIED,
        Event.EMPTIED,
        Event.CONDEMNED,
        Event.VANISHED,
    ):
        phase = step(phase, event)
    assert phase is Phase.GONE


def test_every_phase_but_the_last_can_vanish() -> None:
    assert {phase for phase, event in TABLE if event is Event.VANISHED} == set(Phase) - {Phase.GONE}


def test_an_illegal_event_names_the_thing() -> None:
    with pytest.raises(IllegalTransition, match="State cannot change from gone to ready: i-1"):
        step(Phase.GONE, Event.READY, name="i-1")


def facts(phase: Phase, **more: object) -> Facts:
    return Facts(phase=phase, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "more", "now", "why"),
    [
        (Phase.BOOTING, {}, 599.0, ""),
        (Phase.BOOTING, {}, 600.0, "it did not become ready within 600 s"),
        (Phase.UNKNOWN, {}, 600.0, "it did not become ready within 600 s"),
        (Phase.BOOTING, {"behavior": Behavior.DRAIN}, 0.0, "it is drained"),
        (Phase.UNKNOWN, {"behavior": Behavior.DRAIN}, 0.0, ""),
        (Phase.BOOTING, {"behavior": Behavior.HOLD}, 9999.0, ""),
        (Phase.IDLE, {}, 59.0, ""),
        (Phase.IDLE, {}, 60.0, "it was idle for 60 s"),
        (Phase.IDLE, {"behavior": Behavior.HOLD, "broken": "yes"}, 9999.0, ""),
        (Phase.IDLE, {"behavior": Behavior.DRAIN}, 0.0, "it is drained"),
        (Phase.IDLE, {"broken": "no crun"}, 0.0, "it cannot run containers: no crun"),
        (Phase.IDLE, {"known_type": False}, 0.0, "its type is not configured any more"),
        (Phase.IDLE, {"since": 299.0}, 300.0, "it has not answered for 300 s"),
        (Phase.RUNNING, {}, 299.0, ""),
        (Phase.RUNNING, {}, 300.0, "it has not answered for 300 s"),
        (
            Phase.RUNNING,
            {"behavior": Behavior.DRAIN, "broken": "no crun", "seen": 299.0},
            300.0,
            "",
        ),
        (Phase.CREATING, {}, 9999.0, ""),
        (Phase.SHUTDOWN, {}, 9999.0, ""),
        (Phase.GONE, {}, 9999.0, ""),
    ],
)
def test_when_a_machine_is_shut_down(
    phase: Phase, more: dict[str, object], now: float, why: str
) -> None:
    assert verdict(facts(phase, **more), TIMES, now=now) == why


def test_an_idle_machine_goes_at_once_when_others_wait_for_its_place() -> None:
    assert (
        verdict(facts(Phase.IDLE), TIMES, now=0.0, over_quota=True)
        == "it is idle, and others wait for an instance"
    )
    assert verdict(facts(Phase.RUNNING), TIMES, now=0.0, over_quota=True) == ""


@given(
    st.sampled_from(Phase),
    st.sampled_from(Behavior),
    st.floats(0, 1000),
    st.floats(0, 1000),
    st.floats(0, 1000),
)
def test_a_verdict_changes_at_the_moment_that_is_told(
    phase: Phase, behavior: Behavior, since: float, seen: float, now: float
) -> None:
    one = Facts(phase=phase, behavior=behavior, since=since, seen=seen)
    due = next_moment(one, TIMES, now=now)
    before = verdict(one, TIMES, now=now)
    if due is None:
        assert verdict(one, TIMES, now=now + 1e6) == before
    elif before == "":
        assert verdict(one, TIMES, now=(now + due) / 2) == ""


@given(st.floats(0.0, 1e7), st.floats(0.001, 1e4))
def test_at_the_moment_that_is_told_the_verdict_is_there(since: float, time: float) -> None:
    times = Times(idle=time, booting=time, probe=2 * time + 1.0)
    for phase in (Phase.UNKNOWN, Phase.BOOTING, Phase.IDLE):
        facts = Facts(phase=phase, since=since, seen=since)
        moment = next_moment(facts, times, now=since)
        if moment is not None:
            assert verdict(facts, times, now=moment)


def test_rounding_does_not_lose_the_moment() -> None:
    # 1.3 + 2.0 - 1.3 is less than 2.0.
    facts = Facts(phase=Phase.BOOTING, since=1.3, seen=1.3)
    assert verdict(facts, Times(booting=2.0), now=1.3 + 2.0)


def test_moments_of_each_phase() -> None:
    assert next_moment(facts(Phase.BOOTING), TIMES, now=1.0) == 600.0
    assert next_moment(facts(Phase.IDLE), TIMES, now=1.0) == 60.0
    assert next_moment(facts(Phase.RUNNING), TIMES, now=1.0) == 300.0
    assert next_moment(facts(Phase.IDLE, behavior=Behavior.HOLD), TIMES, now=1.0) is None
    assert next_moment(facts(Phase.GONE), TIMES, now=1.0) is None
