"""What system tests share: a Docker daemon and a podman service of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reality import need_program, need_root
from tests.system.docker_daemon import DockerDaemon, running_docker_daemon
from tests.system.podman_service import PodmanService, running_podman_service


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[DockerDaemon]:
    """A daemon for all tests of the session; needs root and dockerd."""
    need_root()
    for program in ("dockerd", "docker"):
        need_program(program)
    with running_docker_daemon() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def podman_service() -> Iterator[PodmanService]:
    """A podman service for all tests of the session; needs root, podman and runc, which docker.io
    brings.
    """
    need_root()
    for program in ("podman", "runc"):
        need_program(program)
    with running_podman_service() as service:
        yield service
