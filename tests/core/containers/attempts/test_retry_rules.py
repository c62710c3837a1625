"""Rules for retries: how they are read, which one holds, delays and growth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.attempts import retry_rules
from lading.core.containers.attempts.retry_rules import RetryRule, RetryRules
from lading.core.errors import Failure, Invalid
from lading.core.values import Json


def test_rules_are_read_by_class() -> None:
    rules = retry_rules.read_rules(
        "retry", {"oom": {"limit": 3.0, "factor": 2, "most": 10}, "node": {"delay": 60}}
    )
    assert rules == {
        Failure.OOM: RetryRule(limit=3, factor=2.0, most=10),
        Failure.NODE: RetryRule(delay=60),
    }
    assert retry_rules.read_rules("retry", None) == {}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "retry: must be an object of rules"),
        ({"moon": {}}, "retry: moon: must be one of user, oom"),
        ({"oom": 3}, "retry.oom: must be an object such as"),
        ({"oom": {"limits": 3}}, "retry.oom: limits: must be limit, delay, factor or most"),
        ({"node": {"factor": 2}}, "retry.node: factor and most are for oom and disk"),
        ({"oom": {"limit": -1}}, "retry.oom.limit: must be a whole number from 0 to 1000000"),
        ({"oom": {"limit": True}}, "retry.oom.limit: must be a whole number"),
        ({"oom": {"delay": 1.5}}, "retry.oom.delay: must be a whole number"),
        ({"oom": {"delay": 8 * 86400}}, "retry.oom.delay: must be a whole number"),
        ({"oom": {"most": 1 << 63}}, "retry.oom.most: must be a whole number"),
        ({"oom": {"factor": 0.5}}, "retry.oom.factor: must be a number from 1 to 64"),
        ({"oom": {"factor": float("nan")}}, "retry.oom.factor: must be a number"),
        ({"oom": {"factor": 10**400}}, "retry.oom.factor: must be a number"),
        ({"disk": {"factor": True}}, "retry.disk.factor: must be a number"),
        ({"disk": {"factor": "2"}}, "retry.disk.factor: must be a number"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(value: Json, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        retry_rules.read_rules("retry", value)
    assert caught.value.message.startswith(fault)


def test_the_policy_of_a_project() -> None:
    assert retry_rules.read_container_policy(None) == {}
    assert retry_rules.read_container_policy({}) == {}
    rules = retry_rules.read_container_policy({"retry": {"user": {"limit": 1}}})
    assert rules == {Failure.USER: RetryRule(limit=1)}
    with pytest.raises(Invalid, match="container_policy: must be an object"):
        retry_rules.read_container_policy([])
    with pytest.raises(Invalid, match="container_policy: budget: must be retry"):
        retry_rules.read_container_policy({"budget": 1})
    with pytest.raises(Invalid, match=r"container_policy\.retry\.user: must be an object"):
        retry_rules.read_container_policy({"retry": {"user": 1}})


def test_each_value_comes_from_the_nearest_rule_that_has_it() -> None:
    near, far = RetryRule(limit=0, delay=5), RetryRule(limit=9, factor=2.0, most=7)
    layers: tuple[RetryRules, ...] = (
        {Failure.OOM: near},
        {},
        {Failure.OOM: far, Failure.NODE: far},
    )
    found = retry_rules.rule_for(Failure.OOM, layers)
    assert found == RetryRule(limit=0, delay=5, factor=2.0, most=7)
    assert retry_rules.rule_for(Failure.USER, layers) == RetryRule()
    assert retry_rules.rule_for(None, layers) == RetryRule()


_LIMITS = st.none() | st.integers(0, 9)


@given(st.lists(st.tuples(_LIMITS, _LIMITS), max_size=4))
def test_a_rule_is_the_first_of_each_value(pairs: list[tuple[int | None, int | None]]) -> None:
    layers = [{Failure.NODE: RetryRule(limit=limit, delay=delay)} for limit, delay in pairs]
    found = retry_rules.rule_for(Failure.NODE, layers)
    assert found.limit == next((limit for limit, _ in pairs if limit is not None), None)
    assert found.delay == next((delay for _, delay in pairs if delay is not None), None)


def test_delays_double_up_to_an_hour() -> None:
    waits = [retry_rules.delay_before(RetryRule(delay=60), earlier) for earlier in range(9)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert retry_rules.delay_before(RetryRule(delay=7200), 5) == 7200
    assert retry_rules.delay_before(RetryRule(), 5) == 0


@given(st.integers(0, retry_rules.LONGEST_DELAY), st.integers(0, 10**9))
def test_no_delay_is_shorter_than_the_one_before(delay: int, earlier: int) -> None:
    rule = RetryRule(delay=delay)
    wait = retry_rules.delay_before(rule, earlier)
    assert delay <= wait <= max(delay, retry_rules.LONGEST_DOUBLED)
    assert wait <= retry_rules.delay_before(rule, earlier + 1)


_RULES = st.builds(
    RetryRule,
    factor=st.none() | st.floats(1, retry_rules.LARGEST_FACTOR),
    most=st.none() | st.integers(0, 1 << 62),
)


@given(_RULES, st.integers(1, 1 << 50), st.integers(1, 1 << 50))
def test_an_amount_never_shrinks_and_never_passes_its_bound(
    rule: RetryRule, first: int, more: int
) -> None:
    had = max(first, more)
    got = retry_rules.grown(rule, had, first=first)
    bound = rule.most if rule.most is not None else first * retry_rules.GROWTH
    assert had <= got <= max(had, bound)
    assert got == had or rule.grows


def test_an_amount_grows_by_its_factor() -> None:
    assert retry_rules.grown(RetryRule(factor=1.5, most=100), 10, first=10) == 15
    assert retry_rules.grown(RetryRule(factor=4.0, most=30), 10, first=10) == 30
    assert retry_rules.grown(RetryRule(factor=64.0), 10, first=10) == 80
    assert retry_rules.grown(RetryRule(), 10, first=10) == 10


def test_rules_in_the_form_of_the_command_line() -> None:
    rule = retry_rules.parse_rule("3,delay=1m,factor=1.5,most=64GiB")
    assert rule == {"limit": 3, "delay": 60, "factor": 1.5, "most": 64 << 30}
    assert retry_rules.parse_rule("limit=1,delay=5") == {"limit": 1, "delay": 5}
    shown = retry_rules.show_rule(retry_rules.read_rules("retry", {"oom": rule})[Failure.OOM])
    assert shown == "limit=3,delay=60,factor=1.5,most=68719476736"
    assert retry_rules.parse_rule(shown) == rule
    assert retry_rules.show_rule(RetryRule()) == ""


@pytest.mark.parametrize("text", ["", "x", "factor=x", "delay=soon", "most=big", "moon=1"])
def test_what_is_no_rule_of_the_command_line(text: str) -> None:
    with pytest.raises(Invalid):
        retry_rules.parse_rule(text)
