from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, EngineSettings
from lading.supervisor.engines.docker import DockerEngine, start_failure
from lading.supervisor.engines.docker_gang import DockerGang
from lading.testing.images import ArchiveImage, make_archive, make_layer


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


class Images:
    """A daemon that has images and loads others, as far as an engine asks it to."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.there: set[str] = set()
        self.loaded: list[bytes] = []
        self.says = b'{"stream":"Loaded image ID"}\n'
        self.id = ""
        self.ping: dict[str, str] = {}
        self.asked = 0
        self.root = "/"

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(headers=self.ping)

    async def _inspect(self, request: web.Request) -> web.Response:
        found = request.match_info["name"] in self.there
        return web.json_response(
            {"Id": "x"} if found else {"message": "no such image"}, status=200 if found else 404
        )

    async def _load(self, request: web.Request) -> web.Response:
        self.loaded.append(await request.read())
        self.there.add(self.id)
        return web.Response(body=self.says, content_type="application/json")

    async def _version(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response({"ApiVersion": "1.41", "Version": "20"})

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"DockerRootDir": self.root})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{version:v[0-9.]+}/version", self._version)
        app.router.add_get("/version", self._version)
        app.router.add_get("/_ping", self._ping)
        app.router.add_get("/{version:v[0-9.]+}/info", self._info)
        app.router.add_get("/{version:v[0-9.]+}/images/{name}/json", self._inspect)
        app.router.add_post("/{version:v[0-9.]+}/images/load", self._load)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, self.socket).start()
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.fixture
async def images(tmp_path: Path) -> AsyncIterator[Images]:
    made = Images(str(tmp_path / "s"))
    async with made.serving():
        yield made


async def test_a_daemon_whose_disk_is_full(images: Images) -> None:
    settings = EngineSettings(
        container_uuid="u", run_directory="/r", cache_directory="/c", docker_socket=images.socket
    )
    engine = DockerEngine(settings)
    try:
        assert await engine.check() == "docker 20 (API 1.41)"
        # procfs has no blocks.
        images.root = "/proc"
        with pytest.raises(ExecutionError, match="/proc: no space is left") as caught:
            await engine.check()
        assert caught.value.failure is Failure.NODE
    finally:
        await engine.remove()


async def _prepare(images: Images, image: ArchiveImage, cache: Path, *, uuid: str = "u") -> None:
    settings = EngineSettings(
        container_uuid=uuid,
        run_directory="/r",
        cache_directory=str(cache),
        docker_socket=images.socket,
    )
    engine = DockerEngine(settings)
    try:
        await engine.prepare(image)
    finally:
        await engine.remove()


async def test_an_image_is_seen_to_be_in_its_collection_once(
    images: Images, tmp_path: Path
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})], {"Labels": {"x": "y"}})
    images.id = name
    image = ArchiveImage(name, archive)
    for _ in range(2):
        await _prepare(images, image, tmp_path)
    assert (image.reads, len(images.loaded)) == (1, 1)
    # Another collection with the same image: it is there, but not yet seen to be in this one.
    again = ArchiveImage(name, archive, pdh="other")
    for _ in range(2):
        await _prepare(images, again, tmp_path)
    assert (again.reads, len(images.loaded)) == (1, 1)
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
    images: Images, tmp_path: Path
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})])
    images.id, slow = name, _SlowImage(name, archive)
    waiting = asyncio.create_task(_prepare(images, slow, tmp_path, uuid="slow"))
    await slow.began.wait()
    await _prepare(images, ArchiveImage(name, archive), tmp_path, uuid="quick")
    slow.go.set()
    await waiting
    assert not list((tmp_path / "images").glob(".*.tar"))


@pytest.mark.parametrize(
    ("ping", "asked"), [({"Api-Version": "1.41"}, 0), ({}, 1), ({"Api-Version": "new"}, 1)]
)
async def test_a_daemon_that_names_its_version_in_a_ping_is_not_asked_for_it(
    images: Images, tmp_path: Path, ping: dict[str, str], asked: int
) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})])
    images.id, images.ping = name, ping
    await _prepare(images, ArchiveImage(name, archive), tmp_path)
    assert images.asked == asked


async def test_an_image_that_is_there_is_given_to_nobody_who_does_not_have_it(
    images: Images, tmp_path: Path
) -> None:
    layer = make_layer({"a": b"a"})
    name, archive = make_archive([layer])
    images.there.add(name)
    for bad in (
        make_archive([make_layer({"b": b"b"})])[1],
        archive.replace(layer[:600], bytes(600)),
    ):
        with pytest.raises(ExecutionError, match="sha256") as caught:
            await _prepare(images, ArchiveImage(name, bad), tmp_path)
        assert caught.value.failure is Failure.IMAGE
    assert images.loaded == []
    assert list((tmp_path / "images").iterdir()) == []


async def test_what_the_daemon_makes_of_an_archive_is_told(images: Images, tmp_path: Path) -> None:
    name, archive = make_archive([make_layer({"a": b"a"})])
    with pytest.raises(ExecutionError, match="under another id"):
        await _prepare(images, ArchiveImage(name, archive), tmp_path)
    images.says = b'{"error":"no space left on device"}\n'
    with pytest.raises(ExecutionError, match="no space left"):
        await _prepare(images, ArchiveImage(name, archive), tmp_path)
    (tmp_path / "images").rmdir()
    (tmp_path / "images").touch()
    with pytest.raises(ExecutionError, match="cannot be read"):
        await _prepare(images, ArchiveImage(name, archive), tmp_path)
