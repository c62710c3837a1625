"""Retries by rules of requests, projects and the configuration: limits, delays, growth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import recipe
from lading.core.containers.attempts import retry
from lading.core.containers.attempts.retry_rules import RetryRule
from lading.core.containers.constraints import NO_LIMIT, Policy
from lading.core.containers.container import Container
from lading.core.containers.disk_space import DISK_FACTOR, ScratchLimits
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Failure
from lading.core.quantities import later
from tests.core.containers.attempts.test_retry import C2, C3, asking, plan
from tests.records import NOW, USER, make_container

GIB = 1 << 30
OOM = {"state": "Complete", "exit_code": 137, "runtime_status": {"failure": "oom"}}
DISK = {"state": "Cancelled", "runtime_status": {"failure": "disk"}}


def sized(ram: Any = GIB, **changes: Any) -> Container:
    return make_container(1, runtime_constraints={"ram": ram, "vcpus": 1}, **changes)


def killed(ram: int = GIB, **changes: Any) -> dict[str, Container]:
    """The container before and after it was killed for lack of ram."""
    return {"before": sized(ram, **changes), "ended": sized(ram, **{**OOM, **changes})}


def ruled(number: int = 1, rule: dict[str, Any] | None = None, **changes: Any) -> ContainerRequest:
    """A request with a rule for `oom`."""
    wanted = {"factor": 2} if rule is None else rule
    return asking(
        number,
        **{
            "scheduling_parameters": {"retry": {"oom": wanted}},
            "runtime_constraints": {"ram": GIB, "vcpus": 1},
            **changes,
        },
    )


def ram_of(found: retry.Retry | None) -> int | None:
    return None if found is None else int(found.container.runtime_constraints["ram"])  # type: ignore[arg-type]


def test_a_retry_gets_more_ram_up_to_the_bound() -> None:
    assert ram_of(plan(ruled(), **killed())) == 2 * GIB
    assert ram_of(plan(ruled(rule={"factor": 4, "most": 3 * GIB}), **killed())) == 3 * GIB
    assert ram_of(plan(ruled(), **killed(4 * GIB))) == 8 * GIB
    assert ram_of(plan(ruled(), **killed(8 * GIB))) is None, "the bound is 8 times the first"


def test_its_keys_are_those_of_its_own_amounts() -> None:
    found = plan(ruled(), **killed())
    assert found is not None
    fresh = found.container
    assert fresh.reuse_key == recipe.key(recipe.of_container(fresh))
    assert fresh.broad_key == recipe.broad_key(recipe.of_container(sized()))
    assert "retry" not in fresh.scheduling_parameters


def test_a_range_is_the_bound_and_what_is_left_of_it_stays() -> None:
    wide: dict[str, Any] = {"runtime_constraints": {"ram": [GIB, 4 * GIB], "vcpus": 1}}
    spans: dict[str, Any] = {"constraint_ranges": {"ram": [GIB, 4 * GIB]}}
    found = plan(ruled(**wide), **killed(GIB, **spans))
    assert found is not None
    assert (ram_of(found), found.container.constraint_ranges) == (
        2 * GIB,
        {"ram": [2 * GIB, 4 * GIB]},
    )
    full = plan(ruled(**wide), **killed(2 * GIB, **spans))
    assert full is not None
    assert (ram_of(full), full.container.constraint_ranges) == (4 * GIB, {})
    assert plan(ruled(**wide), **killed(4 * GIB, **spans)) is None


def test_other_failures_leave_the_range_as_it_is() -> None:
    spans: dict[str, Any] = {"constraint_ranges": {"ram": [GIB, 4 * GIB]}}
    ended = sized(2 * GIB, state="Cancelled", runtime_status={"failure": "node"}, **spans)
    found = plan(ruled(), before=sized(2 * GIB, **spans), ended=ended)
    assert found is not None
    assert (ram_of(found), found.container.constraint_ranges) == (GIB, spans["constraint_ranges"])


def test_who_wants_exactly_these_amounts_gets_no_others() -> None:
    exact = ruled(2, rule={"factor": 2, "limit": 2}, match_resources=True)
    assert ram_of(plan(exact, **killed())) == GIB, "its own limit still holds"
    assert plan(ruled(2, match_resources=True), **killed()) is None
    found = plan(ruled(1), exact, **killed())
    assert found is not None
    assert (ram_of(found), [one.request.uuid for one in found.changes]) == (
        2 * GIB,
        [ruled(1).uuid],
    )


def test_one_container_serves_those_who_want_more_and_those_who_do_not() -> None:
    found = plan(ruled(1), ruled(2, rule={"limit": 1}), **killed())
    assert found is not None
    assert (ram_of(found), len(found.changes)) == (2 * GIB, 2)


def disk(rule: dict[str, Any], *, scratch: ScratchLimits, had: float = 1.0) -> float | None:
    """Times the usual disk of a retry after `disk`."""
    more = {"scheduling_parameters": {DISK_FACTOR: had}} if had > 1 else {}
    request = asking(scheduling_parameters={"retry": {"disk": rule}})
    found = plan(
        request,
        before=make_container(1, **more),
        ended=make_container(1, **{**DISK, **more}),
        policy=Policy(scratch=scratch),
    )
    if found is None:
        return None
    return float(found.container.scheduling_parameters.get(DISK_FACTOR, 1.0))  # type: ignore[arg-type]


def test_a_retry_gets_more_disk_up_to_the_bound() -> None:
    # The tmp mount has 1000 bytes, and 1000 are allowed beside it.
    small = ScratchLimits(mount=0, beside=1000, files=9)
    assert disk({"factor": 2}, scratch=small) == 2.0
    assert disk({"factor": 4, "most": 5000}, scratch=small) == 2.5
    assert disk({"factor": 2}, had=6.0, scratch=small) == 8.0
    assert disk({"factor": 2}, had=8.0, scratch=small) is None
    assert disk({"factor": 2, "most": 1000}, scratch=small) is None
    assert disk({"factor": 2, "most": 10}, scratch=ScratchLimits(beside=0)) == 2.0
    assert disk({"limit": 1}, scratch=small) == 1.0


def test_more_disk_stays_with_later_attempts() -> None:
    more = {"scheduling_parameters": {DISK_FACTOR: 4.0}}
    ended = make_container(1, state="Cancelled", **more)
    found = plan(asking(), before=make_container(1, **more), ended=ended)
    assert found is not None
    assert found.container.scheduling_parameters[DISK_FACTOR] == 4.0


def test_rules_of_the_request_come_before_the_projects_and_those_before_the_configuration() -> None:
    failed = make_container(1, state="Complete", exit_code=1)
    site = Policy(retry_rules={Failure.USER: RetryRule(limit=1, delay=30)})
    inner, outer = {Failure.USER: RetryRule(limit=0)}, {Failure.USER: RetryRule(delay=7)}
    assert retry.terms(failed, (), site).limit == 1
    assert retry.terms(failed, (inner, outer), site) == retry.RetryTerms(
        0, RetryRule(limit=0, delay=7)
    )
    own = asking(scheduling_parameters={"retry": {"user": {"limit": 2}}})
    projects = {USER: [inner, outer]}
    assert plan(asking(), ended=failed, policy=site, projects=projects) is None
    assert plan(own, ended=failed, policy=site, projects=projects) is not None


def test_a_factor_alone_asks_for_further_attempts() -> None:
    grows = {Failure.OOM: RetryRule(factor=2.0)}
    assert retry.terms(sized(**OOM), (grows,), Policy()).limit == NO_LIMIT
    assert retry.terms(sized(**OOM), (grows,), Policy(), fixed=True).limit == 0
    assert retry.terms(make_container(state="Complete", exit_code=0), (grows,), Policy()).limit == 0


def test_a_delay_is_kept_with_the_request() -> None:
    slow = {"retry": {"node": {"delay": 60}}}
    lost = make_container(1, state="Cancelled", runtime_status={"failure": "node"})
    first = plan(asking(scheduling_parameters=slow), ended=lost)
    assert first is not None
    assert first.changes[0].changed["retry_after"] == later(NOW, 60)
    again = asking(scheduling_parameters=slow, attempted_container_uuids=[C3], container_count=2)
    second = plan(again, ended=lost, earlier={C3: lost_before()})
    assert second is not None
    assert second.changes[0].changed["retry_after"] == later(NOW, 120)
    assert plan(asking(), ended=lost).changes[0].changed["retry_after"] is None  # type: ignore[union-attr]


def lost_before() -> Container:
    return make_container(3, state="Cancelled", runtime_status={"failure": "node"})


def test_a_recipe_is_not_made_smaller() -> None:
    made_of = recipe.of_container(sized(2 * GIB))
    assert recipe.enlarged(made_of, GIB) is made_of


@given(
    st.integers(1, 1 << 40),
    st.floats(1, 64),
    st.none() | st.integers(1, 1 << 45),
    st.integers(1, 12),
)
def test_attempts_grow_to_a_bound_and_end(
    ram: int, factor: float, most: int | None, count: int
) -> None:
    rule = {"factor": factor, **({} if most is None else {"most": most})}
    request = ruled(
        rule=rule, runtime_constraints={"ram": ram, "vcpus": 1}, container_count_max=1 << 20
    )
    had = ram
    for _ in range(count):
        found = plan(request, **killed(had))
        if found is None:
            break
        got = ram_of(found)
        assert got is not None
        assert had < got or factor <= 1
        assert got <= (8 * ram if most is None else max(ram, most))
        assert found.container.uuid == C2
        had = got


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ({"state": "Running", "runtime_status": {"error": "x"}}, ""),
        ({"state": "Complete", "exit_code": 0}, ""),
        ({"state": "Complete", "exit_code": 3}, "the command ended with exit code 3"),
        ({"state": "Cancelled"}, "no reason was given"),
        ({"state": "Cancelled", "runtime_status": {"error": "x"}}, "x"),
    ],
)
def test_the_reason_of_an_attempt(ended: dict[str, Any], reason: str) -> None:
    assert retry.reason_of(make_container(1, **ended)) == reason
