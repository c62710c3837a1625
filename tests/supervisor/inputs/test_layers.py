from __future__ import annotations

import asyncio
import errno
import fcntl
import gzip
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.process import removal
from lading.supervisor.inputs.layers import LayerStore
from lading.testing.images import ArchiveImage, make_archive, make_layer
from lading.testing.odd_images import entry, layer

pytestmark = pytest.mark.usefixtures("as_root")
A, B = make_layer({"a": b"a" * 20000}), make_layer({"b": b"b" * 20000})


def image(*layers: bytes, pdh: str = "") -> ArchiveImage:
    return ArchiveImage(*make_archive(layers), pdh=pdh)


def layers_in(cache: Path) -> int:
    return len([one for one in (cache / "layers").iterdir() if not one.name.startswith(".")])


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(tmp_path, limit=1 << 30)


async def test_an_image_is_unpacked_once(store: LayerStore, tmp_path: Path) -> None:
    wanted = image(A, B)
    for _ in range(2):
        found, lease = await store.lease(wanted)
        os.close(lease)
        assert [
            (layer / name).exists() for layer, name in zip(found.layers, "ab", strict=True)
        ] == [True, True]
    assert wanted.reads == 1
    assert layers_in(tmp_path) == 2


async def test_images_share_layers(store: LayerStore, tmp_path: Path) -> None:
    for wanted in (image(A), image(A, B)):
        _, lease = await store.lease(wanted)
        os.close(lease)
    assert layers_in(tmp_path) == 2


async def test_two_at_the_same_time_unpack_once(tmp_path: Path) -> None:
    wanted = image(A)
    leases = await asyncio.gather(
        *(LayerStore(tmp_path, limit=1 << 30).lease(wanted) for _ in range(3))
    )
    for _, lease in leases:
        os.close(lease)
    assert wanted.reads == 1


async def test_an_image_that_comes_slowly_does_not_hold_up_another(tmp_path: Path) -> None:
    go = asyncio.Event()

    class SlowImage(ArchiveImage):
        async def chunks(self) -> AsyncIterator[bytes]:
            await go.wait()
            async for chunk in super().chunks():
                yield chunk

    slow = asyncio.create_task(
        LayerStore(tmp_path, limit=1 << 30).lease(SlowImage(*make_archive([A, B])))
    )
    _, lease = await LayerStore(tmp_path, limit=1 << 30).lease(image(A))
    os.close(lease)
    assert not slow.done()
    go.set()
    os.close((await slow)[1])
    assert layers_in(tmp_path) == 2


async def test_nothing_is_removed_while_another_process_unpacks(
    store: LayerStore, tmp_path: Path
) -> None:
    building = tmp_path / "layers" / ".new-cc"
    unnamed = tmp_path / "layers" / ("b" * 64)
    for place in (building, unnamed):
        place.mkdir(parents=True)
    other = os.open(tmp_path / "layers" / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_SH)
    os.close((await store.lease(image(A)))[1])
    assert building.is_dir()
    assert unnamed.is_dir()
    os.close(other)
    os.close((await store.lease(image(B)))[1])
    assert not building.exists()
    assert not unnamed.exists()


async def test_a_layer_whose_lock_is_held_is_not_swept(store: LayerStore, tmp_path: Path) -> None:
    building = tmp_path / "layers" / ".new-cc"
    building.mkdir(parents=True)
    other = os.open(tmp_path / "layers" / ".lock-cc", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    os.close((await store.lease(image(A)))[1])
    assert building.is_dir()
    os.close(other)


async def test_unused_images_make_room(tmp_path: Path) -> None:
    store = LayerStore(tmp_path, limit=40000)
    _, first = await store.lease(image(A))
    os.close(first)
    _, second = await store.lease(image(B))
    assert layers_in(tmp_path) == 1
    _, third = await store.lease(image(A))
    assert layers_in(tmp_path) == 2
    os.close(second)
    os.close(third)


async def test_an_image_larger_than_the_cache_is_used_all_the_same(tmp_path: Path) -> None:
    found, lease = await LayerStore(tmp_path, limit=1).lease(image(A, B))
    assert all(layer.is_dir() for layer in found.layers)
    os.close(lease)


async def test_a_description_that_cannot_be_read_is_made_anew(
    store: LayerStore, tmp_path: Path
) -> None:
    wanted = image(A)
    os.close((await store.lease(wanted))[1])
    (tmp_path / "images" / "other.json").write_text("{")
    (tmp_path / "images" / f"{wanted.pdh}.json").write_text("{")
    os.close((await store.lease(wanted))[1])
    assert wanted.reads == 2


async def test_a_layer_that_is_there_is_given_to_nobody_who_does_not_have_it(
    store: LayerStore, tmp_path: Path
) -> None:
    os.close((await store.lease(image(A, pdh="theirs")))[1])
    name, archive = make_archive([A])
    other = archive.replace(A[:600], bytes(600))
    assert other != archive
    with pytest.raises(ExecutionError, match="but its configuration says"):
        await store.lease(ArchiveImage(name, other, pdh="mine"))
    assert not (tmp_path / "images" / "mine.json").exists()
    assert layers_in(tmp_path) == 1


async def test_a_description_of_an_earlier_version_is_proven_anew(
    store: LayerStore, tmp_path: Path
) -> None:
    wanted = image(A)
    os.close((await store.lease(wanted))[1])
    path = tmp_path / "images" / f"{wanted.pdh}.json"
    path.write_text(path.read_text().replace(',"proven":true', ""))
    os.close((await store.lease(wanted))[1])
    assert wanted.reads == 2
    assert '"proven":true' in path.read_text()


async def test_what_stays_does_not_stop_the_sweep(
    store: LayerStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "layers" / ".new-4194303-a").mkdir(parents=True)
    (tmp_path / "layers" / ".new-4194303-b").mkdir()
    real = removal.discard

    def discard(place: Path, **how: object) -> None:
        if place.name.endswith("-a"):
            raise OSError(errno.EIO, "Input/output error")
        real(place, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(removal, "discard", discard)
    os.close((await store.lease(image(A)))[1])
    assert [one.name for one in (tmp_path / "layers").glob(".new-*")] == [".new-4194303-a"]
    assert "cannot be removed" in caplog.text


async def test_what_the_dead_left_is_swept(store: LayerStore, tmp_path: Path) -> None:
    for folder in ("images", "layers"):
        (tmp_path / folder).mkdir()
    gone = 2**22 - 1
    (tmp_path / "layers" / f".new-{gone}-aa" / "x").mkdir(parents=True)
    (tmp_path / "images" / f".pdh.{gone}.tar").touch()
    living = tmp_path / "images" / f".pdh.{os.getppid()}.tar"
    living.touch()
    os.close((await store.lease(image(A)))[1])
    assert [one.name for one in (tmp_path / "images").glob(".*")] == [living.name]
    assert list((tmp_path / "layers").glob(".new*")) == []


@pytest.mark.parametrize(
    ("archive", "fault"),
    [
        (b"x" * 2000, "not a tar archive"),
        (make_layer({"x": b""}), r"no manifest\.json"),
        (make_layer({"manifest.json": None}), r"no manifest\.json"),
        (make_layer({"manifest.json": b'[{"Config":"c","Layers":[]}]'}), "no c"),
        (make_archive([A])[1].replace(b'"0/layer.tar"', b'"1/layer.tar"'), "no 1/layer.tar"),
    ],
)
async def test_what_is_no_image_is_refused(
    store: LayerStore, tmp_path: Path, archive: bytes, fault: str
) -> None:
    with pytest.raises(ExecutionError, match=fault) as caught:
        await store.lease(ArchiveImage("sha256:0", archive))
    assert caught.value.failure is Failure.IMAGE
    assert list((tmp_path / "images").glob(".*.tar")) == []


def links(*pairs: tuple[str, str], kind: bytes = tarfile.SYMTYPE) -> bytes:
    """An archive of links: pairs of name and target."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, target in pairs:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("archive", "fault"),
    [
        (links(("manifest.json", "manifest.json")), r"no manifest\.json"),
        (links(("manifest.json", "b"), ("b", "manifest.json")), r"no manifest\.json"),
        (links(("manifest.json", "/etc/passwd")), r"no manifest\.json"),
        (links(("manifest.json", "../../../../../etc/passwd")), r"no manifest\.json"),
        (links(("manifest.json", "/etc/passwd"), kind=tarfile.LNKTYPE), r"no manifest\.json"),
        (make_layer({"manifest.json": b" " * 3000}), r"more than 1000 bytes"),
        (
            make_layer({"manifest.json": b'[{"Config":"%s","Layers":[]}]' % (b"../" * 100)}),
            r"no \.\./",
        ),
    ],
)
async def test_what_is_hostile_is_refused(
    store: LayerStore, tmp_path: Path, archive: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lading.supervisor.inputs.image_archive.MOST_DOCUMENT", 1000)
    with pytest.raises(ExecutionError, match=fault) as caught:
        await store.lease(ArchiveImage("sha256:0", archive))
    assert (caught.value.failure, len(caught.value.message) < 400) == (Failure.IMAGE, True)
    assert layers_in(tmp_path) == 0


async def test_a_layer_that_grows_is_refused(tmp_path: Path) -> None:
    name, archive = make_archive([gzip.compress(make_layer({"zeros": bytes(1 << 20)}))])
    with pytest.raises(ExecutionError, match="larger than the cache"):
        await LayerStore(tmp_path, limit=1 << 18).lease(ArchiveImage(name, archive))
    assert list((tmp_path / "layers").glob(".new*")) == []


async def test_a_layer_with_another_hash_is_refused(store: LayerStore, tmp_path: Path) -> None:
    name, archive = make_archive([A])
    with pytest.raises(ExecutionError, match="configuration says"):
        await store.lease(ArchiveImage(name, archive.replace(b"a" * 20000, b"c" * 20000)))
    assert layers_in(tmp_path) == 0
    assert list((tmp_path / "layers").glob(".new*")) == []


@pytest.mark.parametrize(
    ("number", "failure"), [(errno.ENOSPC, Failure.DISK), (errno.EIO, Failure.NODE)]
)
async def test_what_the_disk_refuses_is_told(
    store: LayerStore, monkeypatch: pytest.MonkeyPatch, number: int, failure: Failure
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("lading.supervisor.inputs.unpack.unpack_layer", refuse)
    with pytest.raises(ExecutionError, match="cannot be unpacked") as caught:
        await store.lease(image(A))
    assert caught.value.failure is failure


async def test_a_layer_that_depends_on_lower_ones_is_unpacked_for_each(
    store: LayerStore, tmp_path: Path
) -> None:
    mark = make_layer({".wh.a": b""})
    for wanted in (image(A, mark), image(B, mark), image(A, mark, pdh="again")):
        os.close((await store.lease(wanted))[1])
    assert layers_in(tmp_path) == 4


async def test_a_layer_twice_is_stacked_once(store: LayerStore) -> None:
    found, lease = await store.lease(image(A, B, A))
    os.close(lease)
    assert [(path / "a").exists() for path in found.layers] == [False, True]


async def test_the_lowest_of_many_layers_are_one_directory(
    store: LayerStore, tmp_path: Path
) -> None:
    layers = [make_layer({f"f{n}": b"x", "n": b"%d" % n, ".wh.f0": b""}) for n in range(1, 150)]
    wanted = image(make_layer({"f0": b"x"}), *layers)
    for pdh in ("", "again"):
        found, lease = await store.lease(wanted if not pdh else image(A, *layers, pdh=pdh))
        os.close(lease)
        assert len(found.layers) == 100
    found, lease = await store.lease(wanted)
    os.close(lease)
    names = sorted(path.name for path in found.layers[0].iterdir())
    assert names == sorted([*(f"f{n}" for n in range(1, 51)), "n"])
    assert (found.layers[0] / "n").read_bytes() == b"50"


async def test_what_is_left_out_is_told_once(store: LayerStore) -> None:
    device = layer(entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1))
    wanted, notes = image(A, device), []
    for _ in range(2):
        found, lease = await store.lease(wanted)
        os.close(lease)
        notes.append(len(found.notes))
    assert notes == [1, 0]


async def test_layers_can_become_one_directory_without_marks(tmp_path: Path) -> None:
    store = LayerStore(tmp_path, limit=1 << 30, user_ids=1, is_merging=True)
    found, lease = await store.lease(image(A, B, layer(entry(".wh.a"))))
    os.close(lease)
    (place,) = found.layers
    assert sorted(one.name for one in place.iterdir()) == ["b"]
