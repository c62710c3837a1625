from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import constraints
from lading.core.containers.attempts import spot
from lading.core.containers.attempts.spot import Preemption
from lading.core.containers.constraints import Policy
from lading.core.errors import Invalid
from lading.core.values import JsonObject

NOW, LATER = "2026-01-31T12:00:00.000000000Z", "2026-01-31T12:05:00.000000000Z"
POLICY = Policy()
TIMES = st.sampled_from([f"2026-01-0{day}T00:00:00.000000000Z" for day in range(1, 6)])
PARAMETERS = st.fixed_dictionaries(
    {"preemptible": st.sampled_from([True, False, "prefer"])}, optional={"deadline": TIMES}
).map(lambda given: constraints.fill_scheduling(cast(JsonObject, given)))


def test_records_have_booleans_only() -> None:
    filled = constraints.fill_scheduling({"preemptible": "prefer"})
    assert (filled["preemptible"], filled["prefer_preemptible"]) == (True, True)
    assert spot.preemption(filled) is Preemption.PREFERRED
    # A client may send the stored form again.
    assert constraints.fill_scheduling(filled) == filled
    assert spot.preemption(constraints.fill_scheduling({"preemptible": True})) is Preemption.ONLY
    assert spot.preemption({}) is Preemption.NEVER
    assert spot.filled({"preemptible": True}) == {"preemptible": True}


def test_a_preference_needs_no_preemptible_types() -> None:
    filled = constraints.fill_scheduling({"preemptible": "prefer"})
    constraints.check_scheduling(filled, committing=True, policy=POLICY)
    with pytest.raises(Invalid, match="not configured"):
        constraints.check_scheduling(
            constraints.fill_scheduling({"preemptible": True}), committing=True, policy=POLICY
        )


@pytest.mark.parametrize(
    ("given_values", "fault"),
    [
        ({"preemptible": "always"}, '[preemptible]: must be true, false or "prefer"'),
        ({"prefer_preemptible": True}, "[prefer_preemptible]: needs preemptible: true"),
        ({"preemptible": True, "prefer_preemptible": 1}, "must be true or false"),
        ({"spot_attempts": 0}, "[spot_attempts]: must be an integer from 1 to 100"),
        ({"spot_attempts": True}, "[spot_attempts]"),
        ({"deadline": "tomorrow"}, "[deadline]: must be a time"),
        ({"deadline": 0}, "[deadline]"),
        ({"deadline": spot.LONGEST_DEADLINE + 1}, "[deadline]"),
        ({"expected_run_time": 5}, "unexpected keys [expected_run_time]"),
    ],
)
def test_bad_values_are_refused(given_values: JsonObject, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        constraints.check_scheduling(
            constraints.fill_scheduling(given_values), committing=False, policy=POLICY
        )
    assert fault in refusal.value.message


def test_a_deadline_is_a_time_from_the_commit_on() -> None:
    assert spot.committed({"deadline": 90}, now=NOW)["deadline"] == "2026-01-31T12:01:30.000000000Z"
    same = spot.committed({"deadline": "2026-02-01T00:00:00+01:00"}, now=NOW)
    assert same["deadline"] == "2026-01-31T23:00:00.000000000Z"
    assert spot.committed(same, now=NOW) == same
    assert spot.committed({}, now=NOW) == {}
    assert spot.deadline({"deadline": 90}) == ""


@given(st.lists(PARAMETERS, min_size=1, max_size=4))
def test_one_container_for_several_goes_only_where_each_may_go(several: list[JsonObject]) -> None:
    merged = constraints.merge_scheduling(several)
    assert constraints.merge_scheduling([merged, merged]) == merged
    assert all(spot.preemption(merged) <= spot.preemption(one) for one in several)
    assert all(spot.deadline(merged) <= spot.deadline(one) for one in several if spot.deadline(one))


@given(PARAMETERS, PARAMETERS)
def test_a_request_joins_only_where_it_may_go(ours: JsonObject, theirs: JsonObject) -> None:
    if spot.join_fault(ours, theirs) is None:
        assert spot.preemption(theirs) <= spot.preemption(ours)
        if spot.deadline(ours) and spot.preemption(theirs) is not Preemption.NEVER:
            assert spot.deadline(theirs) <= spot.deadline(ours)
    assert spot.join_fault(ours, ours) is None


@given(st.integers(0, 6), st.none() | st.integers(1, 5), st.integers(0, 5))
def test_losses_are_counted_by_the_request_or_the_configuration(
    lost: int, own: int | None, default: int
) -> None:
    most = own or default
    found = spot.has_lost_enough({"spot_attempts": own} if own else {}, lost, default=default)
    assert found is (most > 0 and lost >= most)


def test_ordinary_machines_alone() -> None:
    filled = constraints.fill_scheduling({"preemptible": "prefer", "deadline": 5})
    assert spot.preemption(spot.without_preemptible(filled)) is Preemption.NEVER
    assert spot.without_preemptible(filled)["deadline"] == 5


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "a few seconds"), (34, "about 30 s"), (89, "about 90 s"), (240, "about 4 min"),
        (5399, "about 90 min"), (7300, "about 2 h"), (300_000, "about 3 days"),
    ],
)  # fmt: skip
def test_times_in_words(seconds: float, words: str) -> None:
    assert spot.about(seconds) == words


def test_a_missed_deadline_is_said() -> None:
    assert spot.late_sentence(NOW, LATER) == spot.late_sentence(NOW, "") == ""
    assert spot.late_sentence(LATER, NOW) == (
        "It is expected to miss its deadline, 2026-01-31 12:00:00 UTC, by about 5 min."
    )


def test_the_expected_finish_of_a_record() -> None:
    known: JsonObject = {"expected_run_time": 300}
    assert spot.expected_finish(known, started_at=None, now=NOW) == LATER
    assert spot.expected_finish(known, started_at=NOW, now=LATER) == LATER
    overdue = "2026-01-31T13:00:00.000000000Z"
    assert spot.expected_finish(known, started_at=NOW, now=overdue) == overdue
    assert spot.expected_finish({}, started_at=NOW, now=LATER) == ""


@pytest.mark.parametrize("deadline", [NOW, 60, spot.LONGEST_DEADLINE])
def test_good_deadlines(deadline: str | int) -> None:
    filled = constraints.fill_scheduling({"preemptible": "prefer", "deadline": deadline})
    constraints.check_scheduling(filled, committing=False, policy=POLICY)
