"""Containers whose dispatcher's token has ended, and those that an admin ends."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers import lifecycle
from lading.core.containers.container import (
    Container,
    ContainerState,
    Finish,
    RevokeTokens,
)
from lading.core.errors import IllegalTransition, Invalid
from lading.core.policy import orphans
from lading.core.quantities import later
from tests.records import NOW, make_container

HELD: dict[str, Any] = {
    "locked_by_uuid": "gone",
    "auth_uuid": "own",
    "supervisor_auth_uuid": "supervisor",
}


def held(state: str, priority: int = 1) -> Container:
    return make_container(state=state, priority=priority, lock_count=1, **HELD)


def test_a_locked_container_is_given_back() -> None:
    decision = orphans.take_back(held("Locked"), now=NOW, heard=NOW, max_attempts=10)
    assert decision is not None
    change, reason = decision
    assert (change.container.state, reason) == (ContainerState.QUEUED, orphans.GIVEN_BACK)
    assert RevokeTokens(("own", "supervisor")) in change.effects


def test_a_running_container_goes_on_while_its_supervisor_is_heard_of() -> None:
    now = later(NOW, orphans.SUPERVISOR_LEASE - 1)
    assert orphans.take_back(held("Running"), now=now, heard=NOW, max_attempts=10) is None


def test_a_running_container_ends_after_the_lease_of_its_supervisor() -> None:
    now = later(NOW, orphans.SUPERVISOR_LEASE)
    decision = orphans.take_back(held("Running"), now=now, heard=NOW, max_attempts=10)
    assert decision is not None
    after = decision[0].container
    assert (after.state, after.finished_at) == (ContainerState.CANCELLED, now)
    assert after.runtime_status == {"error": orphans.SILENT, "failure": "infrastructure"}
    assert Finish(after.uuid) in decision[0].effects


@pytest.mark.parametrize("state", ["Locked", "Running"])
def test_what_nothing_wants_ends_at_once(state: str) -> None:
    decision = orphans.take_back(held(state, 0), now=NOW, heard=NOW, max_attempts=10)
    assert decision is not None
    assert decision[0].container.state is ContainerState.CANCELLED
    assert decision[1] == orphans.UNWANTED


def test_an_admin_ends_what_another_holds() -> None:
    change, reason = orphans.end_by_admin(
        held("Running"), now=NOW, username="root", reason=" hangs "
    )
    assert reason == "Ended by the administrator root: hangs"
    assert change.container.runtime_status["error"] == reason
    _, reason = orphans.end_by_admin(held("Queued"), now=NOW, username="root", reason=None)
    assert reason == "Ended by the administrator root."


def test_refusals() -> None:
    with pytest.raises(IllegalTransition):
        orphans.end_by_admin(held("Complete"), now=NOW, username="root", reason="")
    for reason in ("x" * 1001, 5):
        with pytest.raises(Invalid, match="eason"):
            orphans.end_by_admin(held("Running"), now=NOW, username="root", reason=reason)


def test_a_saved_log_goes_with_the_end() -> None:
    change = lifecycle.with_log(lifecycle.cancel(held("Running"), now=NOW), "a+1")
    assert (change.container.log, change.changed["log"]) == ("a+1", "a+1")
