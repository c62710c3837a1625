"""The configured facts."""

from __future__ import annotations

from lading.core.containers.constraints import NO_LIMIT, RETRY_LIMITS, Policy
from lading.core.errors import Failure


def test_every_failure_class_has_a_limit_and_commands_are_not_retried() -> None:
    assert set(RETRY_LIMITS) == set(Failure)
    once = (Failure.USER, Failure.OOM, Failure.IMAGE, Failure.INPUT, Failure.TIMEOUT)
    assert {RETRY_LIMITS[one] for one in once} == {0}
    assert RETRY_LIMITS[Failure.PREEMPTED] == NO_LIMIT


def test_the_defaults_are_the_documented_constants() -> None:
    policy = Policy()
    assert (policy.max_dispatch_attempts, policy.max_retry_attempts) == (10, 3)
    assert policy.retry_limits is RETRY_LIMITS
