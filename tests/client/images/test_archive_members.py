"""Files of archives by name: links inside only, damage named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.images.archive import read_layers
from lading.client.images.archive_members import DirectoryMembers, TarMembers, read_document
from lading.core.errors import Malformed
from tests.client.images.images_on_disk import LAYERS, digest, write_files, write_tar


def _linked_tar(path: Path, name: str, kind: bytes, target: str) -> TarMembers:
    with tarfile.open(path, "w") as tar:
        file = tarfile.TarInfo("d/file")
        file.size = 4
        tar.addfile(file, io.BytesIO(b"text"))
        link = tarfile.TarInfo(name)
        link.type, link.linkname = kind, target
        tar.addfile(link)
    return TarMembers(path, "x.tar")


@pytest.mark.parametrize(
    ("kind", "target"), [(tarfile.SYMTYPE, "../d/file"), (tarfile.LNKTYPE, "d/file")]
)
def test_links_inside_a_tar_are_followed(tmp_path: Path, kind: bytes, target: str) -> None:
    found = _linked_tar(tmp_path / "x.tar", "e/link", kind, target)
    assert read_document(found, "e/link") == b"text"
    assert found.tops() == {"d", "e"}


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("l", tarfile.SYMTYPE, "/etc/passwd"),
        ("l", tarfile.SYMTYPE, "l"),
        ("l", tarfile.FIFOTYPE, ""),
    ],
)
def test_links_that_lead_out_or_nowhere_find_nothing(
    tmp_path: Path, name: str, kind: bytes, target: str
) -> None:
    assert _linked_tar(tmp_path / "x.tar", name, kind, target).find(name) is None


def test_nothing_outside_a_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    inside = tmp_path / "image"
    inside.mkdir()
    (inside / "link").symlink_to("../secret")
    found = DirectoryMembers(inside, "image")
    assert found.find("link") is None
    assert found.find("../secret") is None
    assert found.tops() == {"link"}


def test_what_is_no_tar_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"not a tar" * 100)
    with pytest.raises(Malformed, match=r"x\.tar: neither an image nor a tar archive"):
        TarMembers(tmp_path / "x", "x.tar")


def test_documents_are_there_and_small(tmp_path: Path) -> None:
    found = TarMembers(write_tar(tmp_path / "x.tar", {"a.json": b"12345"}), "x.tar")
    with pytest.raises(Malformed, match=r"b\.json is missing"):
        read_document(found, "b.json")
    with pytest.raises(Malformed, match="has 5 bytes"):
        read_document(found, "a.json", limit=4)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_layers_are_uncompressed_and_checked(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    found = DirectoryMembers(write_files(tmp_path / "i", {"l": compress(LAYERS[0])}), "i")
    (layer,) = read_layers(found, ["l"], [digest(LAYERS[0])], tmp_path)
    assert layer.path.read_bytes() == LAYERS[0]


def test_damaged_layers_are_refused(tmp_path: Path) -> None:
    found = DirectoryMembers(write_files(tmp_path / "i", {"l": LAYERS[0]}), "i")
    with pytest.raises(Malformed, match="1 layers, but its configuration has 2"):
        read_layers(found, ["l"], ["a", "b"], tmp_path)
    with pytest.raises(Malformed, match="layer m is missing"):
        read_layers(found, ["m"], ["a"], tmp_path)
    with pytest.raises(Malformed, match="layer 1 is sha256:.*, not a"):
        read_layers(found, ["l"], ["a"], tmp_path)


def test_a_sparse_file_is_no_part_of_an_image(tmp_path: Path) -> None:
    member = tarfile.TarInfo("manifest.json")
    member.type = tarfile.GNUTYPE_SPARSE
    (tmp_path / "x.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(Malformed, match="is a sparse file"):
        read_document(TarMembers(tmp_path / "x.tar", "x.tar"), "manifest.json")
