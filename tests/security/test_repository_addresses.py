"""Addresses of git repositories that lead the server to itself, its link or its cloud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.stranger import QUIET, Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
HOSTS = ("127.0.0.1", "169.254.169.254", "100.100.100.200", "168.63.129.16")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    with running_cluster(tmp_path_factory.mktemp("addresses") / "data", QUIET) as cluster:
        yield Stranger(cluster)


@pytest.mark.attack(
    "has the server fetch a repository from its own machine, or from its cloud's metadata service"
)
@pytest.mark.parametrize("host", HOSTS)
def test_repository(site: Stranger, host: str) -> None:
    made = site.ok("POST", "repositories", {"name": host, "fetch_url": f"http://{host}:9/x.git"})
    mount = {"kind": "git_tree", "uuid": made["uuid"], "commit": "main"}
    spec = {
        "command": ["true"],
        "container_image": "any",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1000}, "/src": mount},
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
        "priority": 1,
        "state": "Committed",
    }
    answer = site.call("POST", "container_requests", spec)
    assert (answer.status, "own machine or link" in answer.text) == (422, True), answer.text
