"""Files of a crate, in a directory or an archive."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from lading.client.provenance.crate_writing import (
    CHECKSUMS,
    CrateWriter,
    JsonSpool,
    checksum_line,
    unescaped,
)
from lading.core.provenance.run_crate import CrateFile

NAMES = ("a", "data/h/x", "odd\nname\\")


@pytest.mark.parametrize("packed", [False, True])
def test_files_and_checksums(tmp_path: Path, packed: bool) -> None:
    place = tmp_path / "crate"
    with CrateWriter(place, packed=packed) as writer:
        for name in NAMES:
            made = writer.write(name, [b"12", b"3"])
            assert (made.path, made.size) == (name, 3)
        sums = writer.finish()
        writer.add_signature("signed")
    if packed:
        with zipfile.ZipFile(place) as archive:
            assert archive.getinfo("data/h/x").compress_type == zipfile.ZIP_STORED
            archive.extractall(tmp_path / "out")
        place = tmp_path / "out"
    assert (place / CHECKSUMS).read_bytes() == sums
    assert (place / f"{CHECKSUMS}.sig").read_text() == "signed"
    command = ("sha256sum", "--quiet", "-c", CHECKSUMS)
    subprocess.run(command, cwd=place, check=True, timeout=20)
    assert writer.files == list(NAMES)


def test_escaped_names_come_back() -> None:
    for name in (*NAMES, "\\n", "a\\\\b", "\r"):
        line = checksum_line(CrateFile(path=name, size=0, sha256="s"))
        shown = line.rstrip("\n").split("  ", 1)[1]
        assert (unescaped(shown) if line.startswith("\\") else shown) == name


def test_lists_that_do_not_fit_into_memory() -> None:
    with JsonSpool() as spool:
        spool.add([{"a": "é"}, 2])
        spool.add([3])
        whole = b"".join(spool.document("list", {"rest": "ü"}, ["ø"]))
        assert json.loads(whole) == {"rest": "ü", "list": ["ø", {"a": "é"}, 2, 3]}
        # People read these files too.
        assert all(letter in whole.decode() for letter in "éüø")
        assert json.loads(b"".join(spool.document("list", {})))["list"] == [{"a": "é"}, 2, 3]
