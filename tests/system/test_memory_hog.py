"""A command that needs more memory than it asks for, on each engine and on Slurm: it is tried again
with more until it fits, and the next run of the same tool is right at its first attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService
from tests.system.slurm_cluster import SlurmCluster, running_slurm

pytestmark = pytest.mark.system
MIB = 1 << 20
# The string grows to 128 MiB; the last word makes it another request of the same tool.
HOG = 'BEGIN { text = "x"; while (n++ < 27) text = text text; print ARGV[1] }'
ASKED = ("--ram", "64MiB", "--attempts", "5", "--retry", "oom=factor=2,most=1GiB")


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    with running_slurm(tmp_path / "slurm", nodes=1, vcpus=2, ram=4000) as running:
        yield running


@pytest.fixture(params=["native", "docker", "podman", "slurm"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    need_root()
    engine = str(request.param)
    containers: dict[str, Any] = {"RuntimeEngine": engine, "LearnResources": "apply"}
    around: Mapping[str, str] = {}
    if engine == "native":
        need_program("crun")
    elif engine == "slurm":
        need_program("crun")
        around = request.getfixturevalue("slurm").environment
        containers |= {
            "RuntimeEngine": "native",
            "Dispatcher": "slurm",
            "ReserveExtraRAM": 0,
            "SLURM": {"PollPeriod": "300ms", "NodeDirectory": str(tmp_path / "node")},
        }
    elif engine == "docker":
        daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
        containers["DockerSocket"] = str(daemon.socket)
    else:
        service: PodmanService = request.getfixturevalue("podman_service")
        containers["PodmanSocket"] = str(service.socket)
    with running_cluster(tmp_path / "data", json.dumps({"Containers": containers}), around) as made:
        made.lading("image", "add", "--name", "tools:1", "--from-host", "awk", timeout=120)
        yield made


def run(cluster: Cluster, word: str) -> list[tuple[str, int]]:
    """Run the hog; the class of failure and MiB of ram of each attempt."""
    done = cluster.lading("run", "--json", *ASKED, "--", "awk", HOG, word, timeout=300)
    uuid = json.loads(done.stdout)["uuid"]
    why = json.loads(cluster.lading("request", "why", "--json", uuid).stdout)
    return [
        (one["failure"] or "", one["runtime_constraints"]["ram"] // MIB)
        for one in (*why["attempts"], why["container"])
    ]


def test_a_hog_gets_more_until_it_fits_and_then_at_once(cluster: Cluster) -> None:
    first = run(cluster, "one")
    assert first[0] == ("oom", 64)
    assert [ram for _, ram in first] == [64 << number for number in range(len(first))]
    assert [failure for failure, _ in first] == ["oom"] * (len(first) - 1) + [""]
    assert run(cluster, "two") == [first[-1]]
