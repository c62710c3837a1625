"""What is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers import constraints, recipe
from lading.core.containers.attempts import retry
from lading.core.containers.constraints import NO_LIMIT, Policy
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Failure
from lading.core.values import JsonObject
from tests.records import NOW, POLICY, container_uuid, make_container, make_request

C1, C2, C3 = (container_uuid(number) for number in (1, 2, 3))


def asking(number: int = 1, **changes: Any) -> ContainerRequest:
    return make_request(
        number, **{"state": "Committed", "container_uuid": C1, "container_count": 1, **changes}
    )


def plan(
    *requests: ContainerRequest, ended: Container | None = None, **options: Any
) -> retry.Retry | None:
    gone = ended or make_container(1, state="Cancelled", cost=2.0, subrequests_cost=0.5)
    given = {"before": make_container(1), "parents": {}, "earlier": {}, "policy": POLICY, **options}
    return retry.plan_retries(gone, requests, uuid=C2, now=NOW, **given)


def test_one_new_container_serves_all() -> None:
    found = plan(
        asking(1, scheduling_parameters={"max_run_time": 5}), asking(2, cumulative_cost=1.0)
    )
    assert found is not None
    assert (found.container.uuid, found.container.state, found.container.priority) == (
        C2,
        ContainerState.QUEUED,
        0,
    )
    assert found.container.scheduling_parameters["max_run_time"] == 0
    first, second = (change.request for change in found.changes)
    assert (first.container_uuid, first.container_count, first.attempted_container_uuids) == (
        C2,
        2,
        [C1],
    )
    assert (first.cumulative_cost, second.cumulative_cost) == (2.5, 3.5)
    assert found.changes[0].changed["cumulative_cost"] == 2.5


def test_the_new_container_has_everything_of_the_old_one() -> None:
    secret = {"/s": {"kind": "text", "content": "x"}}
    before = make_container(
        1, secret_mounts=secret, runtime_token="v2/x", output_storage_classes=["gold"]
    )
    found = plan(asking(), before=before)
    assert found is not None
    assert recipe.of_container(found.container) == recipe.of_container(before)
    assert found.container.reuse_key == before.reuse_key


def test_a_retry_runs_for_a_user_who_wants_it() -> None:
    other = "zzzzz-tpzed-bbbbbbbbbbbbbbb"
    found = plan(asking(committed_by_uuid=other))
    assert found is not None
    assert found.container.runtime_user_uuid == other
    found = plan(asking(1, committed_by_uuid=other), asking(2))
    assert found is not None
    assert found.container.runtime_user_uuid == make_container(1).runtime_user_uuid


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 0},
        {"state": "Final"},
        {"container_count": 3},
        {"requesting_container_uuid": C3},
    ],
)
def test_who_does_not_want_another_attempt(changes: dict[str, Any]) -> None:
    assert plan(asking(**changes)) is None
    found = plan(asking(1), asking(2, **changes))
    assert found is not None
    assert len(found.changes) == 1


@pytest.mark.parametrize(
    ("state", "priority", "retried"),
    [("Running", 5, True), ("Running", 0, False), ("Complete", 5, False)],
)
def test_children_are_retried_while_their_parent_runs(
    state: str, priority: int, retried: bool
) -> None:
    parents = {C3: make_container(3, state=state, priority=priority)}
    assert (plan(asking(requesting_container_uuid=C3), parents=parents) is not None) == retried


@pytest.mark.parametrize(
    ("ended", "allowed"),
    [
        ({"state": "Cancelled"}, NO_LIMIT),
        ({"state": "Cancelled", "runtime_status": {"failure": "image"}}, 0),
        ({"state": "Cancelled", "runtime_status": {"failure": "timeout"}}, 0),
        ({"state": "Cancelled", "runtime_status": {"failure": "preempted"}}, NO_LIMIT),
        ({"state": "Complete", "exit_code": 0}, 0),
        ({"state": "Complete", "exit_code": 0, "runtime_status": {"failure": "oom"}}, 0),
        ({"state": "Complete", "exit_code": 1}, 0),
        ({"state": "Complete", "exit_code": 1, "runtime_status": {"failure": "preempted"}}, 0),
    ],
)
def test_limits_by_failure_class(ended: dict[str, Any], allowed: int) -> None:
    assert retry.terms(make_container(**ended), (), POLICY).limit == allowed


def test_the_configuration_may_retry_commands() -> None:
    policy = Policy(retry_limits={Failure.OOM: 2, Failure.USER: 1})
    killed = make_container(state="Complete", exit_code=137, runtime_status={"failure": "oom"})
    assert retry.terms(killed, (), policy).limit == 2
    failed = make_container(state="Complete", exit_code=1)
    assert retry.terms(failed, (), policy).limit == 1
    assert retry.terms(failed, (), Policy(retry_limits={})).limit == 0


def test_a_class_limit_counts_earlier_attempts_that_failed_so() -> None:
    broken = make_container(state="Cancelled", runtime_status={"failure": "disk"})
    assert plan(asking(), ended=broken) is not None
    again = asking(attempted_container_uuids=[C3], container_count=2)
    before = {
        kind: make_container(3, state="Cancelled", runtime_status={"failure": kind})
        for kind in ("disk", "node")
    }
    assert plan(again, ended=broken, earlier={C3: before["disk"]}) is None
    assert plan(again, ended=broken, earlier={C3: before["node"]}) is not None
    assert plan(again, ended=broken) is not None, (
        "one that is not known any more counts for nothing"
    )


def test_every_exit_code_but_0_is_one_way_to_fail() -> None:
    policy = Policy(retry_limits={Failure.USER: 1})
    failed = make_container(1, state="Complete", exit_code=1)
    again = asking(attempted_container_uuids=[C3], container_count=2)
    earlier = {C3: make_container(3, state="Complete", exit_code=7)}
    assert plan(asking(), ended=failed, policy=policy) is not None
    assert plan(again, ended=failed, earlier=earlier, policy=policy) is None
    assert retry.failure_class(make_container(state="Complete", exit_code=0)) is None


def test_who_lost_enough_preemptible_machines_gets_others() -> None:
    taken = {"state": "Cancelled", "runtime_status": {"failure": "preempted"}}
    ended, earlier = make_container(1, **taken), {C3: make_container(3, **taken)}
    first = asking(scheduling_parameters={"preemptible": True})
    again = asking(
        attempted_container_uuids=[C3],
        container_count=2,
        scheduling_parameters={"preemptible": True},
    )

    def preemptible(request: ContainerRequest, attempts: int) -> bool:
        policy = Policy(spot_attempts=attempts)
        found = plan(request, ended=ended, before=ended, earlier=earlier, policy=policy)
        assert found is not None
        return bool(found.container.scheduling_parameters["preemptible"])

    assert [preemptible(first, attempts) for attempts in (0, 1, 2)] == [True, False, True]
    assert [preemptible(again, attempts) for attempts in (0, 1, 2, 3)] == [True, False, False, True]


PREFER: JsonObject = {"preemptible": True, "prefer_preemptible": True}


@given(
    st.lists(st.sampled_from(["preempted", "node"]), min_size=1, max_size=6),
    st.none() | st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_never_on_a_preemptible_machine_after_enough_losses(
    failures: list[str], own: int | None, default: int, prefers: bool
) -> None:
    scheduling: JsonObject = dict(PREFER) if prefers else {"preemptible": True}
    if own:
        scheduling["spot_attempts"] = own
    uuids = [f"zzzzz-dz642-{number:015d}" for number in range(100, 100 + len(failures))]
    attempts = {
        uuid: structs.replace(
            make_container(1, state="Cancelled", runtime_status={"failure": failure}), uuid=uuid
        )
        for uuid, failure in zip(uuids, failures, strict=True)
    }
    one = asking(
        attempted_container_uuids=uuids[:-1],
        container_count=len(uuids),
        container_count_max=100,
        scheduling_parameters=scheduling,
    )
    found = plan(
        one, ended=attempts[uuids[-1]], earlier=attempts, policy=Policy(spot_attempts=default)
    )
    assert found is not None
    made = found.container.scheduling_parameters
    most, lost = own or default, failures.count("preempted")
    assert made["preemptible"] is not (most > 0 and lost >= most)
    assert ("prefer_preemptible" in made) is (prefers and made["preemptible"] is True)
    assert "spot_attempts" not in made


def test_a_retry_keeps_the_deadline_and_the_expected_time() -> None:
    deadline = "2026-01-31T12:00:00.000000000Z"
    ended = make_container(
        1, state="Cancelled", scheduling_parameters={"expected_run_time": 90, "deadline": deadline}
    )
    found = plan(asking(scheduling_parameters={**PREFER, "deadline": deadline}), ended=ended)
    assert found is not None
    assert found.container.scheduling_parameters == {
        **constraints.fill_scheduling({}), **PREFER, "expected_run_time": 90, "deadline": deadline,
    }  # fmt: skip
