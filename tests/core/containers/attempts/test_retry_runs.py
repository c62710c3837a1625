"""Whole lives of requests through random failures: what must hold whatever the rules say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers.attempts import retry
from lading.core.containers.attempts.retry_rules import GROWTH, RetryRule, read_rules, rule_for
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.disk_space import disk_factor
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Failure
from lading.core.quantities import later
from tests.core.containers.attempts.test_retry import asking
from tests.records import NOW, container_uuid, make_container

RAM = 1 << 30
_RULE = st.fixed_dictionaries(
    {}, optional={"limit": st.integers(0, 4), "delay": st.integers(0, 9000)}
)
_GROWING = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(0, 4),
        "delay": st.integers(0, 9000),
        "factor": st.floats(1, 8),
        "most": st.integers(RAM // 2, 64 * RAM),
    },
)
_RULES = st.fixed_dictionaries(
    {},
    optional={
        str(one): _GROWING if one in (Failure.OOM, Failure.DISK) else _RULE for one in Failure
    },
)
_FAILURES = st.lists(st.sampled_from(list(Failure)), max_size=14)


def failed(container: Container, failure: Failure) -> Container:
    by_command = failure in (Failure.USER, Failure.OOM)
    ended: dict[str, Any] = {"state": "Complete", "exit_code": 1} if by_command else {}
    return Container.from_record(
        {
            **container.to_record(),
            "state": "Cancelled",
            **ended,
            "runtime_status": {"failure": str(failure)},
            "cost": 1.0,
        }
    )


class Life:
    """One request, from attempt to attempt, and what was seen of it."""

    def __init__(self, rules: dict[str, Any], most: int, site: dict[Failure, RetryRule]) -> None:
        self.request: ContainerRequest = asking(
            scheduling_parameters={"retry": rules},
            runtime_constraints={"ram": RAM, "vcpus": 1},
            container_count_max=most,
        )
        self.container = make_container(1, runtime_constraints={"ram": RAM, "vcpus": 1})
        self.policy = Policy(retry_rules=site)
        self.earlier: dict[str, Container] = {}
        self.seen: Counter[Failure] = Counter()

    def fail(self, failure: Failure) -> bool:
        """Whether it is tried again after this failure."""
        ended = failed(self.container, failure)
        found = retry.plan_retries(
            ended,
            [self.request],
            before=self.container,
            parents={},
            earlier=self.earlier,
            uuid=container_uuid(2 + len(self.earlier)),
            now=NOW,
            policy=self.policy,
        )
        self.seen[failure] += 1
        self.earlier[ended.uuid] = ended
        if found is None:
            return False
        self.container, self.request = found.container, found.changes[0].request
        return True

    def rule(self, failure: Failure) -> RetryRule:
        own = read_rules("", self.request.scheduling_parameters["retry"])
        return rule_for(failure, (own, self.policy.retry_rules))


_SITE = st.dictionaries(
    st.sampled_from(list(Failure)),
    st.builds(RetryRule, limit=st.none() | st.integers(0, 5), delay=st.none() | st.just(60)),
    max_size=3,
)


@given(_RULES, st.integers(1, 12), _SITE, _FAILURES)
def test_no_life_breaks_a_rule(
    rules: dict[str, Any], most: int, site: dict[Failure, RetryRule], failures: list[Failure]
) -> None:
    life = Life(rules, most, site)
    for failure in failures:
        before = life.container
        if not life.fail(failure):
            break
        rule, now = life.rule(failure), life.container
        assert life.request.container_count <= most
        assert rule.limit is None or life.seen[failure] <= rule.limit
        _check_amounts(before, now, failure, rule)
        pause = life.request.retry_after
        assert (pause is not None) == bool(rule.delay)
        assert pause is None or pause >= later(NOW, rule.delay or 0)
        assert life.request.cumulative_cost == len(life.earlier)
        assert life.request.attempted_container_uuids == list(life.earlier)


def _check_amounts(before: Container, now: Container, failure: Failure, rule: RetryRule) -> None:
    had, has = (int(one.runtime_constraints["ram"]) for one in (before, now))  # type: ignore[arg-type]
    was, is_ = (disk_factor(one.scheduling_parameters) for one in (before, now))
    assert (has >= had, is_ >= was) == (True, True)
    assert has == had or (failure is Failure.OOM and rule.grows)
    assert has == had or has <= (RAM * GROWTH if rule.most is None else rule.most)
    assert is_ == was or (failure is Failure.DISK and rule.grows and is_ <= GROWTH)
    if rule.grows and failure in (Failure.OOM, Failure.DISK):
        assert (has, is_) != (had, was), "a retry that gets no more is none"


@given(_FAILURES, st.integers(1, 12))
def test_without_rules_all_is_as_it_was(failures: list[Failure], most: int) -> None:
    life = Life({}, most, {})
    for failure in failures:
        allowed = life.policy.retry_limits[failure] > life.seen[failure]
        wanted = life.request.container_count < most
        assert life.fail(failure) is (allowed and wanted)
        if not (allowed and wanted):
            break
        assert life.request.retry_after is None
        first = structs.replace(make_container(1), uuid=life.container.uuid)
        assert life.container.scheduling_parameters.keys() <= {
            *first.scheduling_parameters, "partitions", "max_run_time", "preemptible", "supervisor",
        }  # fmt: skip
        assert life.container.runtime_constraints["ram"] == RAM
