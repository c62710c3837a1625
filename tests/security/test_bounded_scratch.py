"""What a container writes is bounded: it is ended, and neither the server nor other containers come
to harm.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.reality import need_program
from tests.security.small_disk import (
    Writer,
    begun,
    cluster_on,
    ended,
    memory_disk,
    small_disk,
    submit,
)
from tests.system.cluster import Cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.podman_service import PodmanService

pytestmark = pytest.mark.system
STUBBORN = "trap '' TERM INT; cd /out; "
BYTES = STUBBORN + "while :; do dd if=/dev/zero bs=64k >> big 2>/dev/null; done"
FILES = STUBBORN + "i=0; while :; do true > $i; i=$((i + 1)); done 2>/dev/null"
GIVES_UP = "cd /out; i=0; while true > $i; do i=$((i + 1)); done; exit 1"
ALLOCATED = STUBBORN + "i=0; while :; do fallocate -l 1M $i; i=$((i + 1)); done 2>/dev/null"
NAMELESS = (
    STUBBORN + "exec 3> big; rm big; while :; do dd if=/dev/zero bs=64k >&3 2>/dev/null; done"
)
# Bounded, as a daemon keeps it on the disk of the machine that runs the tests.
OUTSIDE = (
    "trap '' TERM; mkdir -p /d; dd if=/dev/zero of=/d/big bs=1M count=300; "
    "while :; do sleep 1; done"
)
NAMELESS_OUTSIDE = (
    "trap '' TERM; exec 3> /big; rm /big; dd if=/dev/zero bs=1M count=300 >&3; "
    "while :; do sleep 1; done"
)
OF_THE_DAEMON = (
    "trap '' TERM; dd if=/dev/zero of=/etc/hosts bs=1M count=300; while :; do sleep 1; done"
)
DEEP = (
    "cd /out; i=0; while [ $i -lt 500 ]; do mkdir d; cd d; i=$((i + 1)); done;"
    " dd if=/dev/zero bs=1M count=40 of=x; sleep 60"
)
QUIET = "sleep 4; until echo well > /out/file; do sleep 0.5; done"


@pytest.fixture
def engine_settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """Keys of the configuration for the engine that the test names."""
    name = getattr(request, "param", "native")
    if name == "docker":
        daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
        return {"RuntimeEngine": "docker", "DockerSocket": str(daemon.socket)}
    if name == "podman":
        service: PodmanService = request.getfixturevalue("podman_service")
        return {"RuntimeEngine": "podman", "PodmanSocket": str(service.socket)}
    need_program("crun")
    return {"RuntimeEngine": "native"}


ENGINES = pytest.mark.parametrize("engine_settings", ["native", "docker", "podman"], indirect=True)


@contextmanager
def others_go_on(cluster: Cluster) -> Iterator[None]:
    """Inside, somebody writes records and has a container of their own, which ends well."""
    writer = Writer(cluster)
    quiet = submit(cluster, QUIET)
    # On a disk that is full already it would not begin, and another attempt would.
    begun(cluster, quiet)
    with writer.at_work():
        yield
        container = ended(cluster, quiet)
    how = (container["state"], container["exit_code"])
    assert how == ("Complete", 0), container["runtime_status"]
    assert cluster.lading("cat", f"{container['output']}/file").stdout == "well\n"
    assert set(writer.answers) == {200}
    assert writer.slowest < 10


def attack(cluster: Cluster, script: str, words: str) -> None:
    """Run it: the container ends with the class disk, and what it wrote is gone."""
    with others_go_on(cluster):
        uuid = submit(cluster, script)
        container = ended(cluster, uuid)
        status = container["runtime_status"]
        assert (container["state"], status.get("failure")) == ("Cancelled", "disk"), status
        assert words in status["error"]
        assert words in " ".join(cluster.lading("request", "why", uuid).stdout.split())
        assert words in cluster.lading("request", "logs", "--file", "crunch-run.txt", uuid).stdout
        assert shutil.disk_usage(cluster.data).free > 60 << 20
        assert ended(cluster, submit(cluster, "true"))["state"] == "Complete"


@ENGINES
@pytest.mark.attack("fills the disk of the server with one file, and does not heed TERM")
def test_bytes(engine_settings: dict[str, object]) -> None:
    with small_disk(size=300) as disk, cluster_on(disk, **engine_settings) as cluster:
        attack(cluster, BYTES, "the disk of this machine is almost full")


@ENGINES
@pytest.mark.attack("takes all inodes of the server's disk with empty files")
def test_files(engine_settings: dict[str, object]) -> None:
    with (
        small_disk(size=300, inodes=20_000) as disk,
        cluster_on(disk, **engine_settings) as cluster,
    ):
        attack(cluster, FILES, "the disk of this machine has almost no room for further files")


LIMITED = {"DefaultTmpCapacity": "16MiB", "ScratchBesideMounts": "32MiB"}


@ENGINES
@pytest.mark.attack("writes without end outside of its mounts, to the file system of its image")
def test_outside_of_mounts(engine_settings: dict[str, object]) -> None:
    with small_disk(size=300) as disk, cluster_on(disk, **LIMITED, **engine_settings) as cluster:
        attack(cluster, OUTSIDE, "the container has written")


@ENGINES
@pytest.mark.attack("writes to a file of its image's file system that has no name any more")
def test_nameless_outside_of_mounts(engine_settings: dict[str, object]) -> None:
    with small_disk(size=500) as disk, cluster_on(disk, **LIMITED, **engine_settings) as cluster:
        attack(cluster, NAMELESS_OUTSIDE, "the container has written")


@pytest.mark.parametrize("engine_settings", ["docker", "podman"], indirect=True)
@pytest.mark.attack("writes without end to a file that the daemon mounts from the machine's disk")
def test_files_of_the_daemon(engine_settings: dict[str, object]) -> None:
    with small_disk(size=300) as disk, cluster_on(disk, **LIMITED, **engine_settings) as cluster:
        attack(cluster, OF_THE_DAEMON, "the container has written")


@pytest.mark.parametrize("script", [ALLOCATED, NAMELESS], ids=["allocated", "nameless"])
@pytest.mark.attack(
    "fills the disk of the server by fallocate, or by a file that has no name any more"
)
def test_hidden_bytes(script: str) -> None:
    with small_disk(size=300) as disk, cluster_on(disk) as cluster:
        attack(cluster, script, "the disk of this machine is almost full")


@pytest.mark.attack("hides what it writes below more directories than are walked through")
def test_deep_directories() -> None:
    with small_disk(size=300) as disk, cluster_on(disk, **LIMITED) as cluster:
        attack(cluster, DEEP, "directories more than 400 deep")


@pytest.mark.attack("makes more files than a container may, on a disk that could hold them")
def test_many_files() -> None:
    with small_disk(size=300) as disk, cluster_on(disk, ScratchFiles=5000) as cluster:
        attack(cluster, FILES, "files on the disk of this machine, and 5000 are allowed")


@pytest.mark.attack("fills a data directory that is in memory")
def test_a_disk_in_memory() -> None:
    with memory_disk(size=200) as disk, cluster_on(disk) as cluster:
        attack(cluster, BYTES, "the disk of this machine is almost full")
