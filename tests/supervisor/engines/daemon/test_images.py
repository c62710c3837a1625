from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import EngineSettings
from lading.supervisor.engines.daemon.connection import DaemonConnection
from lading.supervisor.engines.daemon.images import DaemonImage
from lading.testing.images import ArchiveImage, make_archive, make_layer
from tests.supervisor.docker_daemon import FakeDaemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon(str(tmp_path / "s"))
    async with daemon.serving():
        yield daemon


async def _prepare(
    daemon: FakeDaemon, image: ArchiveImage, cache: Path, *, uuid: str = "u"
) -> None:
    settings = EngineSettings(
        container_uuid=uuid,
        run_directory="/r",
        cache_directory=str(cache),
        docker_socket=daemon.socket,
    )
    connection = DaemonConnection("docker", daemon.socket)
    try:
        await DaemonImage(connection, settings, []).prepare(image)
    finally:
        await connection.close()


async def test_an_image_is_seen_to_be_in_its_collection_once(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})], {"Labels": {"x": "y"}})
    daemon.id = name
    image = ArchiveImage(name, archive)
    for _ in range(2):
        await _prepare(daemon, image, tmp_path)
    assert (image.reads, len(daemon.loaded)) == (1, 1)
    # Another collection with the same image: it is there, but not yet seen to be in this one.
    again = ArchiveImage(name, archive, pdh="other")
    for _ in range(2):
        await _prepare(daemon, again, tmp_path)
    assert (again.reads, len(daemon.loaded)) == (1, 1)
    assert sorted(one.suffix for one in (tmp_path / "images").iterdir()) == [".proven", ".proven"]


class _SlowImage(ArchiveImage):
    """An image that arrives after `go`."""

    def __init__(self, name: str, archive: bytes) -> None:
        super().__init__(name, archive)
        self.began, self.go = asyncio.Event(), asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        self.began.set()
        await self.go.wait()
        async for chunk in super().chunks():
            yield chunk


async def test_containers_of_one_process_fetch_an_image_at_the_same_time(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})])
    daemon.id, slow = name, _SlowImage(name, archive)
    waiting = asyncio.create_task(_prepare(daemon, slow, tmp_path, uuid="slow"))
    await slow.began.wait()
    await _prepare(daemon, ArchiveImage(name, archive), tmp_path, uuid="quick")
    slow.go.set()
    await waiting
    assert not list((tmp_path / "images").glob(".*.tar"))


async def test_an_image_that_is_there_is_given_to_nobody_who_does_not_have_it(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    layer = make_layer({"a": b"a"})
    name, archive = make_archive([layer])
    daemon.there.add(name)
    for bad in (
        make_archive([make_layer({"b": b"b"})])[1],
        archive.replace(layer[:600], bytes(600)),
    ):
        with pytest.raises(ExecutionError, match="sha256") as caught:
            await _prepare(daemon, ArchiveImage(name, bad), tmp_path)
        assert caught.value.failure is Failure.IMAGE
    assert daemon.loaded == []
    assert list((tmp_path / "images").iterdir()) == []


async def test_what_the_daemon_makes_of_an_archive_is_told(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})])
    with pytest.raises(ExecutionError, match="under another id"):
        await _prepare(daemon, ArchiveImage(name, archive), tmp_path)
    daemon.says = b'{"error":"no space left on device"}\n'
    with pytest.raises(ExecutionError, match="no space left"):
        await _prepare(daemon, ArchiveImage(name, archive), tmp_path)
    (tmp_path / "images").rmdir()
    (tmp_path / "images").touch()
    with pytest.raises(ExecutionError, match="cannot be read"):
        await _prepare(daemon, ArchiveImage(name, archive), tmp_path)
