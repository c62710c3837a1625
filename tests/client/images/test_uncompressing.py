"""Compressed content of strangers: by a program that the kernel bounds, and by Python."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lading.client.images.archive import plain_layer
from lading.client.images.archive_members import Slice
from lading.client.images.uncompressing import uncompressed
from lading.core.errors import Full, Invalid, Malformed
from lading.process import portable


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that bounds the files of a process, or one that does not."""
    monkeypatch.setattr(portable, "CAN_LIMIT_FILES", request.param == "program")


both = pytest.mark.parametrize("way", ["program", "python"], indirect=True)
pytestmark = pytest.mark.usefixtures("way")


@both
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_part_of_an_archive(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    content = bytes(range(256)) * 10_000
    data = compress(content)
    (tmp_path / "x").write_bytes(b"before" + data + b"after")
    plain = uncompressed(Slice(tmp_path / "x", 6, len(data)), tmp_path / "out", "x")
    assert plain.path.read_bytes() == content


@both
def test_damaged_compression_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"x" * 100_000)[:40] + b"y" * (4 << 20))
    with pytest.raises(Malformed, match="gzip cannot uncompress it"):
        plain_layer(Slice(path, 0, path.stat().st_size), tmp_path / "out", "x.gz")


@both
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_what_grows_without_end_is_stopped(
    tmp_path: Path, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    path = tmp_path / "bomb"
    path.write_bytes(compress(bytes(32 << 20)))
    with pytest.raises(Full, match="grows to more than the .* bytes that are free"):
        plain_layer(Slice(path, 0, path.stat().st_size), tmp_path / "out", "bomb")
    assert (tmp_path / "out").stat().st_size <= 1 << 20


@pytest.mark.parametrize("way", ["program"], indirect=True)
def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd0000")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        Invalid, match="compressed with zstd, which this machine lacks; run 'apt install zstd'"
    ):
        plain_layer(Slice(path, 0, 8), tmp_path / "out", "x.zst")


@pytest.mark.parametrize("way", ["python"], indirect=True)
def test_what_python_cannot_uncompress(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd0000")
    with pytest.raises(Invalid, match="which only Linux can bound here; save it with gzip"):
        plain_layer(Slice(path, 0, 8), tmp_path / "out", "x.zst")
