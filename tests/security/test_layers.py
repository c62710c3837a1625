"""Images are hostile: layers that cannot be removed, hashes of what others have brought, names of
other images.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.process import removal, tree_removal
from lading.supervisor.inputs.layers import LayerStore
from lading.supervisor.inputs.unpack import unpack_layer
from lading.testing.images import ArchiveImage, make_archive, make_layer, tiny_image
from tests.reality import need_program, need_root
from tests.system.test_supervisor import Stage, staged

LIMIT = 1 << 30


def _layer(*found: tuple[str, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, target in found:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o755
            tar.addfile(member)
    return buffer.getvalue()


def _files(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {one.name: opened.extractfile(one).read() for one in opened if one.isfile()}  # type: ignore[union-attr]


# Each link lies in the directories that the one before it leads to, which are made.
LINKS = [("/".join("l" * (one + 1)), tarfile.SYMTYPE, "d/" * 100) for one in range(12)]


@pytest.mark.attack("an image has directories nested deeper than a path can name")
@pytest.mark.parametrize(
    "layer",
    [
        _layer(("d/" * 1450 + "f", tarfile.REGTYPE, "")),
        _layer(*LINKS, ("l/" * 12 + "f", tarfile.REGTYPE, "")),
    ],
    ids=["names", "links"],
)
async def test_depth_is_refused_and_nothing_of_it_stays(tmp_path: Path, layer: bytes) -> None:
    need_root()
    store = LayerStore(tmp_path, limit=LIMIT)
    with pytest.raises(ExecutionError, match="deep|too many links"):
        await store.lease(ArchiveImage(*make_archive([layer])))
    assert {one.name[:5] for one in (tmp_path / "layers").iterdir()} == {".lock"}
    assert not (tmp_path / removal.NAME).exists()


@pytest.mark.attack(
    "an earlier image has left a directory so deep that the cache of layers cannot be swept"
)
async def test_what_an_image_left_does_not_stop_others(tmp_path: Path) -> None:
    need_root()
    for number in range(2):
        here = tmp_path / "layers" / f".new-{4194300 + number}-abc"
        here.mkdir(parents=True)
        descriptor = os.open(here, os.O_RDONLY)
        for _ in range(2600):
            os.mkdir("d", dir_fd=descriptor)
            below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        os.close(descriptor)
    try:
        _, lease = await LayerStore(tmp_path, limit=LIMIT).lease(
            ArchiveImage(*make_archive([make_layer({"a": b"a"})]))
        )
        os.close(lease)
        assert list((tmp_path / "layers").glob(".new-*")) == []
    finally:
        tree_removal.remove(tmp_path / "layers")


def _chain() -> bytes:
    one = tarfile.TarInfo("x")
    one.type, one.size = tarfile.GNUTYPE_LONGNAME, 512
    return gzip.compress((one.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 4000)


def _sparse() -> bytes:
    member = tarfile.TarInfo("x")
    member.size = 1 << 33
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.realsize": "9",
    }
    return gzip.compress(member.tobuf(tarfile.PAX_FORMAT) + b"4000000000\n" + b"0\n" * (1 << 22))


@pytest.mark.attack(
    "a layer of some kilobytes has headers that take all memory, or the stack, of the machine"
)
@pytest.mark.parametrize("make", [_chain, _sparse], ids=["chain", "sparse map"])
def test_headers_are_bounded(tmp_path: Path, make: Callable[[], bytes]) -> None:
    need_root()
    with pytest.raises(ExecutionError, match="damaged"):
        unpack_layer(io.BytesIO(make()), tmp_path / "t", limit=LIMIT)


def _member(name: str, content: bytes, *, holes: int = 0) -> bytes:
    """A file of an archive, followed by a hole that makes it `holes` bytes long."""
    member, head = tarfile.TarInfo(name), b""
    if holes:
        member.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.realsize": str(holes),
            "GNU.sparse.name": name,
        }
        head = f"1\n0\n{len(content)}\n".encode().ljust(512, b"\0")
    data = head + content
    member.size = len(data)
    return member.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def _archive(layers: dict[str, bytes], *, holes: int = 0) -> ArchiveImage:
    ids = ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers.values()]
    config = json.dumps({"rootfs": {"type": "layers", "diff_ids": ids}}).encode()
    name = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": list(layers)}]
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": config}
    found = b"".join(_member(*one) for one in files.items())
    found += b"".join(
        _member(key, gzip.compress(one) if not holes else one, holes=holes)
        for key, one in layers.items()
    )
    return ArchiveImage(f"sha256:{name}", found + bytes(1024))


def _used(place: Path) -> int:
    return sum(one.stat().st_blocks * 512 for one in place.rglob("*"))


@pytest.mark.attack("an image of some kilobytes has a layer of 4 GiB that is a hole of its archive")
async def test_holes_of_an_archive_are_refused(tmp_path: Path) -> None:
    need_root()
    inner = tarfile.TarInfo("big")
    inner.size = 3 << 30
    with pytest.raises(ExecutionError, match="sparse file"):
        await LayerStore(tmp_path, limit=LIMIT).lease(
            _archive({"a.tar": inner.tobuf(tarfile.GNU_FORMAT)}, holes=4 << 30)
        )
    assert _used(tmp_path) < 1 << 20


@pytest.mark.attack("an image of some kilobytes has many layers, each as large as the cache")
async def test_the_layers_of_an_image_are_bounded_together(tmp_path: Path) -> None:
    need_root()
    layers = {f"{one}.tar": make_layer({f"{one}": bytes(900_000)}) for one in range(8)}
    with pytest.raises(ExecutionError, match="larger than the cache"):
        await LayerStore(tmp_path, limit=2 << 20).lease(_archive(layers))


@pytest.mark.attack("an image is packed so well that the cache does not count what it takes")
async def test_what_is_packed_counts_as_it_is_on_disk(tmp_path: Path) -> None:
    need_root()
    store = LayerStore(tmp_path, limit=2 << 20)
    for one in range(4):
        layer = make_layer({f"{one}": bytes(1_500_000)})
        os.close((await store.lease(_archive({"a.tar": layer})))[1])
    assert _used(tmp_path) < 4 << 20


@pytest.mark.attack("an image of some megabytes unpacks to more than the disk has")
async def test_unpacking_leaves_the_reserve_of_the_disk(tmp_path: Path) -> None:
    need_root()
    free = os.statvfs(tmp_path)
    kept = Amount(free.f_bavail * free.f_frsize - (64 << 20), 0)
    layer = make_layer({"zeros": bytes(200 << 20)})
    with pytest.raises(ExecutionError, match="almost full") as caught:
        await LayerStore(tmp_path, limit=LIMIT, reserve=kept).lease(_archive({"a.tar": layer}))
    assert caught.value.failure is Failure.DISK
    assert list((tmp_path / "layers").glob(".new-*")) == []


@pytest.mark.attack("an image unpacks for minutes after its container was cancelled")
async def test_unpacking_ends_with_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root()
    begun, ended = asyncio.Event(), asyncio.Event()
    loop, real = asyncio.get_running_loop(), unpack_layer

    def watched(*given: Any, **named: Any) -> object:
        loop.call_soon_threadsafe(begun.set)
        try:
            return real(*given, **named)
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr("lading.supervisor.inputs.unpack.unpack_layer", watched)
    layer = make_layer({"zeros": bytes(400 << 20)})
    task = asyncio.create_task(LayerStore(tmp_path, limit=LIMIT).lease(_archive({"a.tar": layer})))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(ended.wait(), 5)
    assert _used(tmp_path) < 200 << 20


@pytest.mark.attack(
    "the documents of an image are nested so deep that reading them ends the supervisor"
)
async def test_deep_documents_are_refused(tmp_path: Path) -> None:
    need_root()
    deep = b"[" * 100_000 + b"]" * 100_000
    found = _member("manifest.json", b'[{"Config":"c","Layers":["l"],"x":' + deep + b"}]")
    with pytest.raises(ExecutionError, match="cannot be read"):
        await LayerStore(tmp_path, limit=LIMIT).lease(ArchiveImage("sha256:0", found + bytes(1024)))


SECRET = "the content of another user's image"


def _socket(request: pytest.FixtureRequest, engine: str) -> dict[str, Any]:
    if engine == "native":
        return {}
    fixture = "docker_daemon" if engine == "docker" else "podman_service"
    return {f"{engine}_socket": str(request.getfixturevalue(fixture).socket)}


def _with_secret() -> tuple[str, bytes, bytes]:
    """An image with a secret in its upper layer: its id, its archive, that layer."""
    (base,) = (data for name, data in _files(tiny_image()[1]).items() if name.endswith("layer.tar"))
    upper = make_layer({"secret": SECRET.encode()})
    name, archive = make_archive([base, upper])
    return name, archive, upper


async def _run(stage: Stage, files: dict[str, bytes]) -> tuple[dict[str, Any], str]:
    stage.image = stage.server.add_collection(files)
    record = await stage.run(
        ["cat", "/secret"], mounts={"/out": {"kind": "tmp"}}, output_path="/out"
    )
    del stage.server.containers[record["uuid"]]
    log = stage.server.files(record["log"]) if record.get("log") else {}
    # Each line of the log begins with its time.
    return record, log.get("stdout.txt", b"").decode().partition("Z ")[2].strip()


@pytest.mark.system
@pytest.mark.parametrize("engine", ["native", "docker", "podman"])
@pytest.mark.attack(
    "an image names a layer, or is named after an image, "
    "that another user has brought to the machine"
)
async def test_a_hash_alone_gives_nobody_an_image(
    request: pytest.FixtureRequest, engine: str
) -> None:
    need_root()
    need_program("crun")
    name, archive, upper = _with_secret()
    files = _files(archive)
    # The same configuration, and something else, or nothing, in the place of the layer.
    forged = {member: b"\0" * 1024 if data == upper else data for member, data in files.items()}
    # An image of the attacker's own, and nothing of the other one but its name.
    own = tiny_image(settings={"Env": ["PATH=/bin", "A=b"]})[1]
    async with staged(engine=engine, **_socket(request, engine)) as stage:
        record, said = await _run(stage, {f"{name}.tar": archive})
        assert (record["state"], record["exit_code"], said) == ("Complete", 0, SECRET)
        for bad in (make_layer(forged), own) if engine != "native" else (make_layer(forged),):
            record, said = await _run(stage, {f"{name}.tar": bad, "x": bad[:10]})
            assert (record["state"], record["runtime_status"]["failure"], said) == (
                "Cancelled",
                "image",
                "",
            )
        # Whoever has the content may use it, and so may its owner again.
        record, said = await _run(stage, {f"{name}.tar": archive, "x": b"another collection"})
        assert (record["state"], said) == ("Complete", SECRET)


@pytest.mark.system
@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.attack(
    "an image archive gives itself the name of an image that the machine's administrator uses"
)
async def test_an_archive_names_no_image_of_the_machine(
    request: pytest.FixtureRequest, engine: str
) -> None:
    need_root()
    name, archive = tiny_image(settings={"Env": ["PATH=/bin", f"E={engine}"]})
    files = _files(archive)
    manifest = json.loads(files["manifest.json"])
    manifest[0]["RepoTags"] = ["administrators/tool:1"]
    files["manifest.json"] = json.dumps(manifest).encode()
    socket = _socket(request, engine)
    async with staged(engine=engine, **socket) as stage:
        record, _ = await _run(stage, {f"{name}.tar": make_layer(files)})
        assert record["state"] == "Complete"
    address = f"unix://{next(iter(socket.values()))}"
    ask = ["docker", "--host", address, "image", "inspect", "--format", "{{json .RepoTags}}"]
    for image, expected in ((name, 0), ("administrators/tool:1", 1)):
        asked = await asyncio.to_thread(
            subprocess.run, [*ask, image], capture_output=True, text=True, check=False
        )
        assert (asked.returncode, "administrators" in asked.stdout) == (expected, False)
    assert hashlib.sha256(files[manifest[0]["Config"]]).hexdigest() in name
