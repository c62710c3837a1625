"""The policy from the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.server.policy import make_policy
from lading.config.site import load
from lading.core.errors import Failure, Invalid


def test_policy() -> None:
    policy = make_policy(
        load(None, {"StorageClasses": {"a": {"Default": True}, "b": {"Default": False}}})
    )
    assert (policy.storage_classes, policy.default_storage_classes) == (("a", "b"), ("a",))


@pytest.mark.parametrize(
    ("types", "factor", "has"),
    [
        ({}, 0.5, False),
        ({"a": {}}, 0.0, False),
        ({"a": {}}, 0.5, True),
        ({"a": {"Preemptible": True}}, 0.0, True),
    ],
)
def test_preemptible_instances_may_be_asked_for_where_there_are_some(
    types: dict[str, dict[str, bool]], factor: float, has: bool
) -> None:
    told: dict[str, Any] = {
        "InstanceTypes": types,
        "Containers": {"PreemptiblePriceFactor": factor},
    }
    assert make_policy(load(None, told)).preemptible is has
    always = told["Containers"] | {"AlwaysUsePreemptibleInstances": True}
    assert make_policy(load(None, {**told, "Containers": always})).always_preemptible is has


def test_retry_limits_of_the_configuration() -> None:
    policy = make_policy(
        load(None, {"ClusterID": "zzzzz", "Containers": {"RetryLimits": {"oom": 2}}})
    )
    assert (policy.retry_limits[Failure.OOM], policy.retry_limits[Failure.DISK]) == (2, 1)
    with pytest.raises(Invalid, match=r"Containers\.RetryLimits\.moon: must be one of user, oom"):
        make_policy(load(None, {"ClusterID": "zzzzz", "Containers": {"RetryLimits": {"moon": 2}}}))
