from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import IllegalTransition
from lading.core.scheduling.instance_lifecycle import (
    TABLE,
    Behavior,
    InstanceEvent,
    InstanceFacts,
    InstancePhase,
    InstanceTimes,
    next_moment,
    step,
    verdict,
)

TIMES = InstanceTimes(idle=60.0, booting=600.0, probe=300.0)


def test_the_usual_life() -> None:
    phase = InstancePhase.CREATING
    for event in (
        InstanceEvent.CREATED,
        InstanceEvent.READY,
        InstanceEvent.OCCUPIED,
        InstanceEvent.EMPTIED,
        InstanceEvent.CONDEMNED,
        InstanceEvent.VANISHED,
    ):
        phase = step(phase, event)
    assert phase is InstancePhase.GONE


def test_every_phase_but_the_last_can_vanish() -> None:
    assert {phase for phase, event in TABLE if event is InstanceEvent.VANISHED} == set(
        InstancePhase
    ) - {InstancePhase.GONE}


def test_an_illegal_event_names_the_thing() -> None:
    with pytest.raises(IllegalTransition, match="State cannot change from gone to ready: i-1"):
        step(InstancePhase.GONE, InstanceEvent.READY, name="i-1")


def facts(phase: InstancePhase, **more: object) -> InstanceFacts:
    return InstanceFacts(phase=phase, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "more", "now", "why"),
    [
        (InstancePhase.BOOTING, {}, 599.0, ""),
        (InstancePhase.BOOTING, {}, 600.0, "it did not become ready within 600 s"),
        (InstancePhase.UNKNOWN, {}, 600.0, "it did not become ready within 600 s"),
        (InstancePhase.BOOTING, {"behavior": Behavior.DRAIN}, 0.0, "it is drained"),
        (InstancePhase.UNKNOWN, {"behavior": Behavior.DRAIN}, 0.0, ""),
        (InstancePhase.BOOTING, {"behavior": Behavior.HOLD}, 9999.0, ""),
        (InstancePhase.IDLE, {}, 59.0, ""),
        (InstancePhase.IDLE, {}, 60.0, "it was idle for 60 s"),
        (InstancePhase.IDLE, {"behavior": Behavior.HOLD, "broken": "yes"}, 9999.0, ""),
        (InstancePhase.IDLE, {"behavior": Behavior.DRAIN}, 0.0, "it is drained"),
        (InstancePhase.IDLE, {"broken": "no crun"}, 0.0, "it cannot run containers: no crun"),
        (InstancePhase.IDLE, {"known_type": False}, 0.0, "its type is not configured any more"),
        (InstancePhase.IDLE, {"since": 299.0}, 300.0, "it has not answered for 300 s"),
        (InstancePhase.RUNNING, {}, 299.0, ""),
        (InstancePhase.RUNNING, {}, 300.0, "it has not answered for 300 s"),
        (
            InstancePhase.RUNNING,
            {"behavior": Behavior.DRAIN, "broken": "no crun", "answered_at": 299.0},
            300.0,
            "",
        ),
        (InstancePhase.CREATING, {}, 9999.0, ""),
        (InstancePhase.SHUTDOWN, {}, 9999.0, ""),
        (InstancePhase.GONE, {}, 9999.0, ""),
    ],
)
def test_when_a_machine_is_shut_down(
    phase: InstancePhase, more: dict[str, object], now: float, why: str
) -> None:
    assert verdict(facts(phase, **more), TIMES, now=now) == why


def test_an_idle_machine_goes_at_once_when_others_wait_for_its_place() -> None:
    assert (
        verdict(facts(InstancePhase.IDLE), TIMES, now=0.0, over_quota=True)
        == "it is idle, and others wait for an instance"
    )
    assert verdict(facts(InstancePhase.RUNNING), TIMES, now=0.0, over_quota=True) == ""


@given(
    st.sampled_from(InstancePhase),
    st.sampled_from(Behavior),
    st.floats(0, 1000),
    st.floats(0, 1000),
    st.floats(0, 1000),
)
def test_a_verdict_changes_at_the_moment_that_is_told(
    phase: InstancePhase, behavior: Behavior, since: float, seen: float, now: float
) -> None:
    one = InstanceFacts(phase=phase, behavior=behavior, since=since, answered_at=seen)
    due = next_moment(one, TIMES, now=now)
    before = verdict(one, TIMES, now=now)
    if due is None:
        assert verdict(one, TIMES, now=now + 1e6) == before
    elif before == "":
        assert verdict(one, TIMES, now=(now + due) / 2) == ""


@given(st.floats(0.0, 1e7), st.floats(0.001, 1e4))
def test_at_the_moment_that_is_told_the_verdict_is_there(since: float, time: float) -> None:
    times = InstanceTimes(idle=time, booting=time, probe=2 * time + 1.0)
    for phase in (InstancePhase.UNKNOWN, InstancePhase.BOOTING, InstancePhase.IDLE):
        facts = InstanceFacts(phase=phase, since=since, answered_at=since)
        moment = next_moment(facts, times, now=since)
        if moment is not None:
            assert verdict(facts, times, now=moment)


def test_rounding_does_not_lose_the_moment() -> None:
    # 1.3 + 2.0 - 1.3 is less than 2.0.
    facts = InstanceFacts(phase=InstancePhase.BOOTING, since=1.3, answered_at=1.3)
    assert verdict(facts, InstanceTimes(booting=2.0), now=1.3 + 2.0)


def test_moments_of_each_phase() -> None:
    assert next_moment(facts(InstancePhase.BOOTING), TIMES, now=1.0) == 600.0
    assert next_moment(facts(InstancePhase.IDLE), TIMES, now=1.0) == 60.0
    assert next_moment(facts(InstancePhase.RUNNING), TIMES, now=1.0) == 300.0
    assert next_moment(facts(InstancePhase.IDLE, behavior=Behavior.HOLD), TIMES, now=1.0) is None
    assert next_moment(facts(InstancePhase.GONE), TIMES, now=1.0) is None
