"""Crates of strangers: what is wrong is named, and nothing is read beyond its limits."""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.provenance.crate_reading import CrateReader
from lading.client.provenance.crate_writing import CHECKSUMS, CrateWriter
from lading.client.provenance.signing import load_key, load_signers, sign
from lading.core.errors import Corrupt, Invalid, LadingError, NotFound, TooLarge
from tests.client.provenance.test_signing import _key

FILES = {"records/r.json": b'{"uuid": "r"}', "data/h/x": b"0123456789"}


def _crate(place: Path, *, packed: bool = False, key: Path | None = None) -> Path:
    with CrateWriter(place, packed=packed) as writer:
        for path, data in FILES.items():
            writer.write(path, [data])
        sums = writer.finish()
        if key is not None:
            writer.add_signature(sign(sums, load_key(key)))
    return place


def _check(place: Path, error: type[LadingError], fault: str) -> None:
    with pytest.raises(error, match=fault), CrateReader(place) as reader:
        reader.check()


@pytest.mark.parametrize("packed", [False, True])
def test_a_good_crate(tmp_path: Path, packed: bool) -> None:
    with CrateReader(_crate(tmp_path / "c", packed=packed)) as reader:
        reader.check()
        assert sorted(reader.paths) == sorted(FILES)
        assert list(reader.documents()) == [CHECKSUMS, "records/r.json"]
        assert reader.record("r") == {"uuid": "r"}
        for start, length in ((0, 4), (2, 3), (5, 5), (1, 1)):
            read = b"".join(reader.pieces("data/h/x", start, length))
            assert read == FILES["data/h/x"][start : start + length]
        with pytest.raises(Corrupt, match="cut off"):
            list(reader.pieces("data/h/x", 5, 6))


def test_what_was_changed_added_or_taken_away_is_named(tmp_path: Path) -> None:
    place = _crate(tmp_path / "c")
    (place / "data/h/x").write_bytes(b"0123456780")
    _check(place, Corrupt, "data/h/x: was changed")
    (place / "data/h/x").unlink()
    _check(place, NotFound, "data/h/x: is missing")
    (place / "data/h/x").write_bytes(FILES["data/h/x"])
    (place / "data/h/y").write_bytes(b"")
    _check(place, Corrupt, "data/h/y: is in the crate, and not in")
    (place / "data/h/y").unlink()
    (place / CHECKSUMS).unlink()
    _check(place, NotFound, f"{CHECKSUMS}: is missing")
    _check(tmp_path / "absent", NotFound, "no such crate")


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    kinds: tuple[Callable[[Path], None], ...] = (lambda path: path.symlink_to("/etc"), os.mkfifo)
    for number, make in enumerate(kinds):
        place = _crate(tmp_path / f"c{number}")
        make(place / "extra")
        _check(place, Invalid, "extra: is neither a file nor a folder")
    place = _crate(tmp_path / "folder")
    (place / "more").symlink_to(tmp_path)
    _check(place, Invalid, "more: is neither a file nor a folder")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "a\0x", "x" * 5000])
def test_names_that_leave_the_crate_are_refused(tmp_path: Path, name: str) -> None:
    place = _crate(tmp_path / "c")
    (place / CHECKSUMS).write_text(f"{'0' * 64}  {name}\n")
    _check(place, Invalid, "no name for a file")
    if "\0" not in name:
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo(name), b"")
        _check(tmp_path / "c.zip", Invalid, "no name for a file")


def test_lists_that_are_none(tmp_path: Path) -> None:
    place = _crate(tmp_path / "c")
    (place / CHECKSUMS).write_text("hello\n")
    _check(place, Corrupt, "line 1 is no checksum")
    (place / CHECKSUMS).write_bytes(b"\xff\xfe\n")
    _check(place, Corrupt, "is no text")


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    place = tmp_path / "c"
    records = {"a": b"{", "b": b"[" * 200_000, "c": b'{"uuid": "other"}', "d": b"\xff"}
    with CrateWriter(place, packed=False) as writer:
        for name, data in records.items():
            writer.write(f"records/{name}.json", [data])
        writer.finish()
    with CrateReader(place) as reader:
        reader.check()
        for name in records:
            with pytest.raises(Corrupt, match=f"records/{name}.json"):
                reader.record(name)
        with pytest.raises(Corrupt, match=r"records/d.json: is no text"):
            reader.text("records/d.json")
        with pytest.raises(NotFound, match="records/e.json"):
            reader.record("e")


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(80 << 20))
    _check(place, TooLarge, "unpacks to 83886080 bytes")


def test_an_archive_whose_list_is_too_long_is_not_read(tmp_path: Path) -> None:
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 1 << 30, 0, 0)
    (tmp_path / "a.zip").write_bytes(bytes(100) + end)
    _check(tmp_path / "a.zip", TooLarge, "more than 1000000 members")
    far = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 1 << 40, 0)
    (tmp_path / "b.zip").write_bytes(bytes(100) + far + bytes(20))
    _check(tmp_path / "b.zip", TooLarge, "more than 1000000 members")


def test_archives_that_are_damaged(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("hello")
    _check(tmp_path / "text.zip", Invalid, "no archive of a crate")
    place = _crate(tmp_path / "c.zip", packed=True)
    whole = place.read_bytes()
    place.write_bytes(whole.replace(FILES["data/h/x"], b"abcdefghij"))
    _check(place, Corrupt, "data/h/x: cannot be read: Bad CRC")


def test_twice_the_same_name_and_links_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("x", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x", b"2")
    _check(tmp_path / "twice.zip", Invalid, "x: is twice")
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr("folder/", b"")
        archive.writestr(link, b"/etc/passwd")
    _check(tmp_path / "link.zip", Invalid, "link: is neither")


def test_signatures(tmp_path: Path) -> None:
    key = _key(tmp_path)
    signers = load_signers(tmp_path / "key.pub")
    with CrateReader(_crate(tmp_path / "signed", key=key)) as reader:
        reader.check(signers)
        assert reader.signer.startswith("SHA256:")
        assert f"{CHECKSUMS}.sig" in list(reader.documents())
    with (
        CrateReader(_crate(tmp_path / "bare")) as reader,
        pytest.raises(Invalid, match="is not signed"),
    ):
        reader.check(signers)
    # A tampered file with its new checksum: the signature is of the old list.
    place = tmp_path / "signed"
    (place / "data/h/x").write_bytes(b"evil")
    text = (place / CHECKSUMS).read_text()
    old, new = (hashlib.sha256(one).hexdigest() for one in (FILES["data/h/x"], b"evil"))
    (place / CHECKSUMS).write_text(text.replace(old, new))
    _check(place, Invalid, "the signature does not match")
