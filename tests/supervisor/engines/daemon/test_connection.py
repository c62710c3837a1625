from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines.daemon.connection import DaemonConnection
from tests.supervisor.docker_daemon import FakeDaemon


@pytest.mark.parametrize(
    ("ping", "asked"), [({"Api-Version": "1.41"}, 0), ({}, 1), ({"Api-Version": "new"}, 1)]
)
async def test_a_daemon_that_names_its_version_in_a_ping_is_not_asked_for_it(
    tmp_path: Path, ping: dict[str, str], asked: int
) -> None:
    daemon = FakeDaemon(str(tmp_path / "s"))
    daemon.ping = ping
    connection = DaemonConnection("docker", daemon.socket)
    async with daemon.serving():
        docker = await connection.open()
        assert await connection.open() is docker
        await docker.system.info()
        await connection.close()
    assert daemon.asked == asked


async def test_the_faults_of_a_daemon_are_errors_of_the_container(tmp_path: Path) -> None:
    daemon = FakeDaemon(str(tmp_path / "s"))
    connection = DaemonConnection("docker", daemon.socket)
    with (
        pytest.raises(ExecutionError, match="cannot look: no answer from .*is the daemon") as lost,
        connection.faults("cannot look"),
    ):
        await (await connection.open()).images.inspect("a")
    assert lost.value.failure is Failure.NODE
    async with daemon.serving():
        with (
            pytest.raises(ExecutionError, match="docker cannot look: .*no such image") as refused,
            connection.faults("cannot look", lambda _: Failure.IMAGE),
        ):
            await (await connection.open()).images.inspect("a")
        await connection.close()
    assert refused.value.failure is Failure.IMAGE
