"""Where files are written."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lading.client.provenance.crate_sinks import open_sink


def test_a_directory_takes_files_and_never_twice(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "crate", packed=False)
    with sink.opened("a/b") as file:
        file.write(b"1")
    (tmp_path / "made").write_bytes(b"2")
    sink.adopt("a/c", tmp_path / "made")
    assert (tmp_path / "crate/a/c").read_bytes() == b"2"
    assert not (tmp_path / "made").exists()
    with pytest.raises(FileExistsError), sink.opened("a/b"):
        pass
    with pytest.raises(FileExistsError):
        open_sink(tmp_path / "crate", packed=False)


def test_an_archive_stores_data_as_it_is(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "a.zip", packed=True)
    with sink.opened("text") as file:
        file.write(b"1" * 1000)
    (tmp_path / "made").write_bytes(b"2" * 1000)
    sink.adopt("data/x", tmp_path / "made")
    sink.close()
    assert not (tmp_path / "made").exists()
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        assert packed.read("data/x") == b"2" * 1000
        sizes = {one.filename: one.compress_size for one in packed.infolist()}
    assert sizes["data/x"] == 1000
    assert sizes["text"] < 100
