"""What every handler is given."""

from __future__ import annotations

import pytest

from lading.api.services import Statuses, hash_secret, make_policy
from lading.config import load
from lading.core.errors import Failure, Invalid
from lading.testing.world import World


def test_statuses() -> None:
    statuses = Statuses()
    statuses.put("c", "waits")
    assert statuses.get("c") == "waits"
    statuses.put("c", "")
    statuses.put("c", "")
    assert statuses.get("c") is None


def test_policy() -> None:
    policy = make_policy(load(None, {"StorageClasses": {"a": {"Default": True}, "b": {"Default": False}}}))
    assert (policy.storage_classes, policy.default_storage_classes) == (("a", "b"), ("a",))


async def test_secrets_of_containers_can_be_told_again(it: World) -> None:
    services = it.app.services
    assert services.container_secret("t") == services.container_secret("t") != services.container_secret("u")
    assert len(services.container_secret("t")) == len(services.new_secret()) == 50
    assert services.new_secret() != services.new_secret()
    assert services.new_uuid("dz642").startswith("zzzzz-dz642-")
    assert len(hash_secret("x")) == 64


def test_retry_limits_of_the_configuration() -> None:
    policy = make_policy(load(None, {"ClusterID": "zzzzz", "Containers": {"RetryLimits": {"oom": 2}}}))
    assert (policy.retry_limits[Failure.OOM], policy.retry_limits[Failure.DISK]) == (2, 1)
    with pytest.raises(Invalid, match=r"Containers\.RetryLimits\.moon: must be one of user, oom"):
        make_policy(load(None, {"ClusterID": "zzzzz", "Containers": {"RetryLimits": {"moon": 2}}}))
