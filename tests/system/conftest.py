"""What system tests share: a Docker daemon of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.system.docker_daemon import DockerDaemon, running_docker_daemon


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[DockerDaemon]:
    """A daemon for all tests of the session; they are left out where dockerd is not installed."""
    if shutil.which("dockerd") is None or shutil.which("docker") is None:
        pytest.skip("dockerd is not installed")
    with running_docker_daemon() as daemon:
        yield daemon
