"""What system tests share: a Docker daemon of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reality import need_program, need_root
from tests.system.docker_daemon import DockerDaemon, running_docker_daemon


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[DockerDaemon]:
    """A daemon for all tests of the session; needs root and dockerd."""
    need_root()
    for program in ("dockerd", "docker"):
        need_program(program)
    with running_docker_daemon() as daemon:
        yield daemon
