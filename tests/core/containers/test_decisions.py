"""The names of decisions are columns of `logs` and must not change."""

from __future__ import annotations

from lading.core.containers.container import DecisionKind


def test_every_decision_that_the_seed_lists_has_a_name() -> None:
    assert set(DecisionKind) == {
        "decided_to_run", "decided_not_to_run", "lock_failed", "dispatched", "dispatch",
        "cleaned_up_crashed", "cleaned_up_abandoned",
    }  # fmt: skip
