from __future__ import annotations

import resource

from lading.config.site import load
from lading.wiring.limited_server import make_limits


def test_the_limits_are_those_of_the_configuration_and_of_the_process() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    api = {"MaxConnections": files, "RequestHeadTimeout": "3s", "TrustedAddresses": ["10.0.0.0/8"]}
    limits = make_limits(load(overrides={"API": api}))
    assert limits.connections == files // 4
    assert limits.connections_per_user == min(1024, files // 16)
    assert limits.head_seconds == 3.0
    assert limits.trusted == ("10.0.0.0/8",)
    assert limits.head_bytes == 64 << 10
    assert make_limits(load(overrides={"API": {"MaxConnections": 7}})).connections == 7
    assert most >= files
