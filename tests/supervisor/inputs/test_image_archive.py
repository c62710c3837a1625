"""Image archives are read, proven and stripped of names; attacks on a running system are in
tests/security.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.core.containers.disk_space import AUTOMATIC, Amount
from lading.core.errors import ExecutionError
from lading.supervisor.inputs.image_archive import (
    ImageArchive,
    Proofs,
    fetch,
    is_of_the_dead,
    sweep,
)
from lading.testing.images import ArchiveImage, make_archive, make_layer

A, B = make_layer({"a": b"a"}), make_layer({"b": b"b"})
LIMIT = 1 << 20


def _write(tmp_path: Path, data: bytes) -> Path:
    place = tmp_path / "image.tar"
    place.write_bytes(data)
    return place


def _members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        return {one.name: opened.extractfile(one).read() for one in opened if one.isfile()}  # type: ignore[union-attr]


def _changed(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    files = _members(data)
    change(files)
    return make_layer(files)


def test_an_archive_proves_what_it_holds(tmp_path: Path) -> None:
    name, data = make_archive([A, B])
    with ImageArchive(_write(tmp_path, data)) as archive:
        archive.prove(name, limit=LIMIT)
        assert archive.config.diff_ids[0] == f"sha256:{hashlib.sha256(A).hexdigest()}"
        with pytest.raises(ExecutionError, match="but its content is sha256"):
            archive.prove(f"sha256:{'0' * 64}", limit=LIMIT)


def test_compressed_layers_are_proven_by_their_plain_content(tmp_path: Path) -> None:
    name, data = make_archive([A])
    packed = _changed(data, lambda files: files.update({"0/layer.tar": gzip.compress(A)}))
    with ImageArchive(_write(tmp_path, packed)) as archive:
        archive.prove(name, limit=LIMIT)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (B, "but its configuration says"),
        (b"", "but its configuration says"),
        (gzip.compress(A, mtime=0)[:-9], "is damaged"),
        (gzip.compress(bytes(1 << 24), mtime=0), "larger than the cache"),
    ],
    ids=["other", "none", "cut off", "bomb"],
)
def test_a_layer_with_other_content_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    name, data = make_archive([A])
    other = _changed(data, lambda files: files.update({"0/layer.tar": content}))
    with (
        ImageArchive(_write(tmp_path, other)) as archive,
        pytest.raises(ExecutionError, match=fault),
    ):
        archive.prove(name, limit=LIMIT)


def _oci(files: dict[str, bytes], config: str, *, digest: str = "") -> str:
    """Add a manifest of the configuration; the identity of the image by that."""
    manifest = json.dumps({"config": {"digest": digest or config}}).encode()
    name = hashlib.sha256(manifest).hexdigest()
    files[f"blobs/sha256/{name}"] = manifest
    index = {
        "manifests": [
            {"digest": f"sha256:{name}", "annotations": {"io.containerd.image.name": "python:3"}}
        ]
    }
    files["index.json"] = json.dumps(index).encode()
    return f"sha256:{name}"


def test_an_image_may_be_named_by_its_manifest(tmp_path: Path) -> None:
    config, data = make_archive([A])
    for digest, is_right in (("", True), (f"sha256:{'0' * 64}", False)):
        files = _members(data)
        name = _oci(files, config, digest=digest)
        with ImageArchive(_write(tmp_path, make_layer(files))) as archive:
            if is_right:
                archive.prove(name, limit=LIMIT)
            else:
                with pytest.raises(ExecutionError, match="but its content"):
                    archive.prove(name, limit=LIMIT)
    files[f"blobs/sha256/{'1' * 64}"] = b"[]"
    with (
        ImageArchive(_write(tmp_path, make_layer(files))) as archive,
        pytest.raises(ExecutionError),
    ):
        archive.prove(f"sha256:{'1' * 64}", limit=LIMIT)


def test_the_names_of_images_do_not_get_to_a_daemon(tmp_path: Path) -> None:
    config, data = make_archive([A, B])
    files = _members(data)
    manifest = json.loads(files["manifest.json"])
    manifest[0]["RepoTags"] = ["python:3"]
    files |= {
        "manifest.json": json.dumps(manifest).encode(),
        "repositories": b'{"python":{"3":"x"}}',
    }
    _oci(files, config)
    files["x" * 150] = b"long"
    with ImageArchive(_write(tmp_path, make_layer(files))) as archive:
        given = b"".join(archive.nameless())
    assert b"python:3" not in given
    found = _members(given)
    assert found.keys() == files.keys() - {"repositories"}
    assert json.loads(found["manifest.json"]) == [{**manifest[0], "RepoTags": None}]
    assert all(
        found[one] == files[one] for one in found if one not in ("manifest.json", "index.json")
    )
    with ImageArchive(_write(tmp_path, given)) as archive:
        archive.prove(config, limit=LIMIT)


@pytest.mark.parametrize("index", [b"x", b"[]", b"{}", b'{"manifests":[1]}'])
def test_an_index_that_cannot_be_read_is_refused(tmp_path: Path, index: bytes) -> None:
    _, data = make_archive([A])
    bad = _changed(data, lambda files: files.update({"index.json": index}))
    with (
        ImageArchive(_write(tmp_path, bad)) as archive,
        pytest.raises(ExecutionError, match="cannot be read"),
    ):
        list(archive.nameless())


def test_links_of_the_archive_are_followed_inside_it(tmp_path: Path) -> None:
    name, data = make_archive([A, A])
    files: dict[str, bytes | str | None] = dict(_members(data))
    files["1/layer.tar"] = "../0/layer.tar"
    with ImageArchive(_write(tmp_path, make_layer(files))) as archive:
        archive.prove(name, limit=LIMIT)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    _, data = make_archive([A])
    for bad in (b"x" * 2000, b"", data[:600]):
        with pytest.raises(ExecutionError, match="the image"):
            ImageArchive(_write(tmp_path, bad))
    with pytest.raises(ExecutionError, match="more than 2 members"):
        ImageArchive(_write(tmp_path, data), most_members=2)


def test_proofs_are_of_a_collection_and_an_image(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path)
    proofs.add("pdh", "sha256:1", "sha256:9")
    assert proofs.find("pdh", "sha256:1") == "sha256:9"
    assert proofs.find("pdh", "sha256:2") is None
    assert proofs.find("other", "sha256:1") is None
    # As earlier versions wrote it.
    (tmp_path / "pdh.proven").write_text("sha256:1")
    assert proofs.find("pdh", "sha256:1") is None
    os.utime(tmp_path / "pdh.proven", (1, 1))
    proofs.add("other", "sha256:1", "sha256:1")
    assert [one.name for one in tmp_path.iterdir()] == ["other.proven"]


async def test_an_archive_is_fetched_and_that_of_the_dead_swept(tmp_path: Path) -> None:
    name, data = make_archive([A])
    place = tmp_path / f".pdh.{os.getpid()}.tar"
    await fetch(ArchiveImage(name, data), place, reserve=Amount(AUTOMATIC, AUTOMATIC))
    assert place.read_bytes() == data
    (tmp_path / ".pdh.4194303.tar").touch()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [place]
    assert is_of_the_dead(".new-4194303-abc")
    assert not is_of_the_dead(f".new-{os.getpid()}-abc")
