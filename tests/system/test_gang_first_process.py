"""The ranks of a gang keep to what every engine promises of the first process of a container."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from lading.testing.conformance.first_process import AS_ORPHANED, ATTACK, ORPHANED, SIGNALS
from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, processes_naming, running_cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService

pytestmark = pytest.mark.system
CONFIG = "Local: {VCPUs: 8, RAM: 4GiB}\n"
PROGRAMS = ("mpirun", "sshd", "crun", "ip")
SERVICES = {"docker": "docker_daemon", "podman": "podman_service"}
STOPPED = (
    "sh -c \"trap 'echo saved; exit' TERM; echo up; while :; do sleep 0.1; done\"; echo unheard"
)


@pytest.fixture(
    scope="module",
    params=[
        "native",
        pytest.param("docker", marks=pytest.mark.long),
        pytest.param("podman", marks=pytest.mark.long),
    ],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster of each engine, with an image for gangs."""
    need_root()
    for program in PROGRAMS:
        need_program(program)
    name, socket = request.param, ""
    if name != "native":
        service: DockerDaemon | PodmanService = request.getfixturevalue(SERVICES[name])
        socket = f", {name.title()}Socket: {service.socket}"
    config = f"{CONFIG}Containers: {{RuntimeEngine: {name}{socket}}}\n"
    with running_cluster(tmp_path_factory.mktemp(name) / "data", config) as running:
        running.lading("image", "hpc")
        yield running


def _run(cluster: Cluster, script: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a script in two ranks."""
    options = ("--size", "2", "--launcher", "all", "--no-reuse", *more)
    return cluster.lading("hpc", "run", *options, "--", "sh", "-c", script, check=False)


def test_the_image_has_a_command_that_is_not_the_first_process(cluster: Cluster) -> None:
    script = (
        "read -r first < /proc/1/comm; for file in /proc/[0-9]*/comm; do read -r name < $file;"
        " [ $name = hpcaas-init ] && break; done; echo $first $name"
    )
    assert sorted(_run(cluster, script).stdout.splitlines()) == [
        f"[{rank}] .lading-init hpcaas-init" for rank in range(2)
    ]


@pytest.mark.parametrize(("signal", "code"), SIGNALS)
def test_a_command_can_send_signals_to_itself(cluster: Cluster, signal: str, code: int) -> None:
    done = _run(cluster, f"kill -{signal} $$; echo unheard")
    assert (done.returncode, done.stdout) == (code, "")


def test_orphans_are_collected(cluster: Cluster) -> None:
    done = _run(cluster, ORPHANED)
    lines = [f"[{rank}] {line}" for line in AS_ORPHANED.splitlines() for rank in range(2)]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(lines))


def test_nobody_inside_reaches_the_first_process(cluster: Cluster) -> None:
    done = _run(cluster, ATTACK)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] alive", "[1] alive"])


def test_each_process_hears_of_the_stop(cluster: Cluster) -> None:
    done = _run(cluster, STOPPED, "--max-run-time", "10s")
    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{rank}] {word}" for word in ("up", "saved") for rank in range(2)
    )


def test_the_end_of_the_command_ends_all_others(cluster: Cluster) -> None:
    done = _run(cluster, "(sleep 987.321 &) ; setsid sleep 987.321 & exit 5")
    assert done.returncode == 5
    assert processes_naming("sleep", "987.321") == []
