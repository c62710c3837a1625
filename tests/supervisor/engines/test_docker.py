from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, EngineSettings
from lading.supervisor.engines.daemon.gang import DockerGang
from lading.supervisor.engines.docker import DockerEngine, start_failure
from lading.testing.images import ArchiveImage
from tests.supervisor.docker_daemon import FakeDaemon


@pytest.fixture
def engine(tmp_path: Path) -> DockerEngine:
    socket = str(tmp_path / "none.sock")
    return DockerEngine(
        EngineSettings(
            container_uuid="u", run_directory="/r", cache_directory="/c", docker_socket=socket
        )
    )


async def test_a_daemon_that_is_not_there(engine: DockerEngine) -> None:
    with pytest.raises(ExecutionError, match="is the daemon running") as caught:
        await engine.check()
    assert caught.value.failure is Failure.NODE
    with pytest.raises(ExecutionError, match="cannot look for the image"):
        await engine.prepare(ArchiveImage("sha256:0", b""))
    with pytest.raises(ExecutionError, match="cannot create the container"):
        await engine.create(ContainerSpec(command=("a",)))
    with pytest.raises(ExecutionError, match="no container"):
        await engine.run(stop=asyncio.Event(), stop_grace=0.0)
    with pytest.raises(ExecutionError, match="cannot remove"):
        await engine.remove()


async def test_a_gang_is_given_to_its_conductor_with_the_share_of_each_rank(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gangs = []

    async def create(_: DockerGang, spec: ContainerSpec, config: Mapping[str, Any]) -> None:
        gangs.append((spec.nodes, spec.processes, config["HostConfig"]["PidsLimit"]))

    monkeypatch.setattr(DockerGang, "create", create)
    await engine.create(ContainerSpec(command=("ring",), nodes=2, processes=64))
    assert gangs == [(2, 64, 32)]


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        ('exec: "x": executable file not found in $PATH', Failure.USER),
        ("no space left on device", Failure.NODE),
    ],
)
def test_whose_fault_a_failed_start_is(said: str, failure: Failure) -> None:
    assert start_failure(said).failure is failure


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon(str(tmp_path / "s"))
    async with daemon.serving():
        yield daemon


async def test_a_daemon_whose_disk_is_full(daemon: FakeDaemon) -> None:
    settings = EngineSettings(
        container_uuid="u", run_directory="/r", cache_directory="/c", docker_socket=daemon.socket
    )
    engine = DockerEngine(settings)
    try:
        assert await engine.check() == "docker 20 (API 1.41)"
        # procfs has no blocks.
        daemon.root = "/proc"
        with pytest.raises(ExecutionError, match="/proc: no space is left") as caught:
            await engine.check()
        assert caught.value.failure is Failure.NODE
    finally:
        await engine.remove()
