"""A shell of the page in containers of Docker and Podman, and on a server with PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.system.cluster import Cluster, running_cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.page_shells import open_shell, running
from tests.system.page_visitor import (
    PATIENCE,
    Visitor,
    chromium,
    need_page,
    postgres_config,
    reader,
)
from tests.system.podman_service import PodmanService

__all__ = ["chromium", "reader"]
pytestmark = pytest.mark.system


@pytest.fixture(scope="module", params=["postgresql", "docker", "podman"])
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    need_page()
    config = "Containers:\n  StopGracePeriod: 500ms\n"
    if request.param == "docker":
        daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
        config += f"  RuntimeEngine: docker\n  DockerSocket: {daemon.socket}\n"
    elif request.param == "podman":
        service: PodmanService = request.getfixturevalue("podman_service")
        config += f"  RuntimeEngine: podman\n  PodmanSocket: {service.socket}\n"
    else:
        config += postgres_config(request)
    with running_cluster(tmp_path_factory.mktemp("shells") / "data", config) as made:
        made.lading("image", "add", "--name", "tools:1", "--from-host",
                    "sh", "sleep", "echo", "stty")  # fmt: skip
        yield made


def test_a_shell_from_its_start_to_its_end(cluster: Cluster, reader: Visitor) -> None:
    request = running(cluster, "entered")
    lines = open_shell(reader, request)
    reader.page.keyboard.type("echo $((6 * 7)) é; stty size\n")
    expect(lines).to_contain_text("42 é", timeout=PATIENCE)
    expect(lines).to_contain_text(re.compile(r"\b\d+ \d{2,3}\b"))
    reader.check()
    reader.page.keyboard.type("exit 7\n")
    said = reader.page.locator("#shell-said")
    expect(said).to_have_text("The shell has ended with exit code 7.", timeout=PATIENCE)
    trail = cluster.lading("request", "logs", request, "--file", "crunch-run.txt").stdout
    assert "a user has entered the container" in trail
    # The end of the container is the end of a shell.
    open_shell(reader, request)
    cluster.lading("request", "cancel", request)
    expect(said).to_contain_text("ended", timeout=PATIENCE)
