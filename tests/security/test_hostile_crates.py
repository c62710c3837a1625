"""Crates of strangers, which `lading import` and `lading replay` read; in process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import socket
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lading.client.provenance.crate_import import crate_name, read_contents
from lading.client.provenance.crate_reading import CrateReader
from lading.client.provenance.crate_writing import CHECKSUMS
from lading.core.data import manifest
from lading.core.errors import Corrupt, Invalid, LadingError, TooLarge

REQUEST, CONTAINER = "zzzzz-xvhdp-000000000000000", "zzzzz-dz642-000000000000000"
METADATA = "ro-crate-metadata.json"
Files = Mapping[str, bytes]


def _packed(files: Files, *, listed: bytes | None = None, method: int = 8) -> bytes:
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in files.items())
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", method) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data, compress_type=method)
        archive.writestr(CHECKSUMS, sums.encode() if listed is None else listed)
    return stored.getvalue()


def _read(place: Path) -> None:
    """All that is read before anything is stored."""
    with CrateReader(place) as reader:
        reader.check()
        read_contents(reader)
        crate_name(reader)


def _refused(place: Path) -> LadingError:
    with pytest.raises(LadingError) as caught:
        _read(place)
    message = caught.value.message.replace(str(place), "")
    assert message.isprintable()
    assert len(message) <= 300
    return caught.value


NAMES = (
    "..", "../x", "a/../x", "a/..", "/etc/passwd", "//x", "a//x", "./x", "a/./x", ".", "a/.", "x/",
    "", "/", "a\0x", "../" * 99 + "etc/passwd", "a/" * 3000 + "x", "x" * 5000, "\x1b[2J../x",
    "..\n", "a/..\x1b/../x", "\r/../x", "\u202e/../x", "a/\x07/../b", "\x9b1m/../x", "x/../\x1b]0;",
)  # fmt: skip


@pytest.mark.attack("lists a file that lies outside, or whose name controls the terminal")
@pytest.mark.parametrize("name", NAMES)
def test_name_in_the_list(name: str, tmp_path: Path) -> None:
    shown = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if shown != name else ""
    place = tmp_path / "c"
    place.write_bytes(_packed({}, listed=f"{mark}{'0' * 64}  {shown}\n".encode()))
    _refused(place)


@pytest.mark.attack("has a member that lies outside, or whose name controls the terminal")
@pytest.mark.parametrize("name", [*NAMES, "\x1b[2J", "a\x1b]0;x\x07b", "\u202eabc", "a\nb"])
def test_name_of_a_member(name: str, tmp_path: Path) -> None:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = name
        archive.writestr(info, b"x")
        archive.writestr(CHECKSUMS, b"")
    (tmp_path / "c").write_bytes(stored.getvalue())
    _refused(tmp_path / "c")


@pytest.mark.attack("has a member that is a link, a device, a pipe or a socket")
@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFBLK, stat.S_IFCHR, 0xF000, 0x3000]
)
@pytest.mark.parametrize("system", [0, 3, 19])
def test_kind_of_a_member(kind: int, system: int, tmp_path: Path) -> None:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.external_attr, info.create_system = (kind | 0o777) << 16, system
        archive.writestr(info, b"/etc/passwd")
    (tmp_path / "c").write_bytes(stored.getvalue())
    assert "neither a file nor a folder" in _refused(tmp_path / "c").message


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


TARGETS = ("/etc/passwd", "/", "..", ".", "x", "/proc/self/environ", "absent", "/dev/zero")
KINDS: tuple[Callable[[Path], None], ...] = (
    _pipe,
    _socket,
    *(lambda path, target=target: path.symlink_to(target) for target in TARGETS),
)


@pytest.mark.attack("has a link, a pipe or a socket in its directory")
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_kind_of_a_file(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c" / "d").mkdir(parents=True)
    # Addresses of sockets are short.
    monkeypatch.chdir(tmp_path / "c" / "d")
    KINDS[number](Path("x"))
    assert "d/x: is neither a file nor a folder" in _refused(tmp_path / "c").message


@pytest.mark.attack("has more levels of directories than functions can call each other")
@pytest.mark.parametrize("depth", [1500, 3000])
def test_deep_directories(depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "c"
    place.mkdir()
    monkeypatch.chdir(place)
    for _ in range(depth):
        Path("a").mkdir()
        os.chdir("a")
    error = _refused(place)
    # pytest removes directories by a function that calls itself.
    for _ in range(depth):
        os.chdir("..")
        Path("a").rmdir()
    assert (CHECKSUMS if depth == 1500 else "cannot be read") in error.message


def _patched(data: bytes, mark: bytes, at: int, value: bytes) -> bytes:
    start = data.index(mark) + at
    return data[:start] + value + data[start + len(value) :]


GOOD = _packed({METADATA: b'{"@graph": [{"@id": "./", "name": "n"}]}', "x": b"0123456789" * 99})
METHODS = (1, 6, 9, 12, 14, 19, 93, 98, 99, 65535)
LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
ARCHIVES = (
    b"", b"PK", END, END + bytes(18), b"x" * 100, GOOD[:-1], GOOD[: len(GOOD) // 2], GOOD[-60:],
    *(_packed({"x": bytes(1000)}, method=method) for method in (12, 14)),
    *(_patched(GOOD, CENTRAL, 10, struct.pack("<H", number)) for number in METHODS),
    *(_patched(GOOD, CENTRAL, at, struct.pack("<I", number)) for at in (16, 20, 24, 42)
      for number in (1, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)),
    *(_patched(GOOD, CENTRAL, at, struct.pack("<H", number)) for at in (6, 28, 30, 32)
      for number in (0x00FF, 0x7FFF, 0xFFFF)),
    _patched(GOOD, CENTRAL, 8, b"\1\0"),
)  # fmt: skip
# What programs do not agree about; `zipfile` ignores some of it.
DOUBTFUL = (
    *(_patched(GOOD, LOCAL, 8, struct.pack("<H", number)) for number in METHODS),
    *(_patched(GOOD, END, at, struct.pack("<I", number)) for at in (12, 16)
      for number in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF)),
    _patched(GOOD, LOCAL, 6, b"\1\0"), b"x" * 99 + GOOD, GOOD + b"x" * 99, GOOD + GOOD,
    GOOD + END + bytes(18),
)  # fmt: skip


@pytest.mark.attack("has an archive that programs read differently")
@pytest.mark.parametrize("number", range(len(DOUBTFUL)))
def test_doubtful_archive(number: int, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(DOUBTFUL[number])
    # Other errors are not clear.
    with suppress(LadingError):
        _read(tmp_path / "c")


@pytest.mark.attack("has an archive with false sizes, positions, methods and flags")
@pytest.mark.parametrize("number", range(len(ARCHIVES)))
def test_damaged_archive(number: int, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(ARCHIVES[number])
    tracemalloc.start()
    try:
        _refused(tmp_path / "c")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


@pytest.mark.attack("changes bytes of an archive at random, so as to break its reader")
@pytest.mark.parametrize("seed", range(100))
def test_changed_archive(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(GOOD)
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    (tmp_path / "c").write_bytes(data)
    # Other errors are not clear.
    with suppress(LadingError):
        _read(tmp_path / "c")


@pytest.mark.attack("unpacks to far more than it is")
@pytest.mark.parametrize("members", [1, 3])
def test_bomb(members: int, tmp_path: Path) -> None:
    files = {f"x{number}": bytes((100 << 20) // members) for number in range(members)}
    (tmp_path / "c").write_bytes(_packed(files, listed=b""))
    assert isinstance(_refused(tmp_path / "c"), TooLarge)


@pytest.mark.attack("scatters blocks, so that an archive is unpacked for each of them")
def test_scattered_blocks(tmp_path: Path) -> None:
    size = 20 << 20
    (tmp_path / "c").write_bytes(_packed({"a": bytes(size), "b": bytes(size)}))
    with CrateReader(tmp_path / "c") as reader:
        reader.check()

        def read() -> None:
            for _ in range(20):
                for path in ("a", "b"):
                    list(reader.pieces(path, size - 1, 1))

        with pytest.raises(TooLarge, match="scattered"):
            read()


WRONG: tuple[Any, ...] = (
    1,
    1.5,
    True,
    "x",
    "\x1b[2J",
    [],
    ["x"],
    {},
    {"a": 1},
    [[]],
    "../x",
    10**99,
)
PDH = f"{'0' * 32}+0"


def _records(request: Any, container: Any) -> dict[str, bytes]:
    files = {METADATA: b'{"@graph": [{"@id": "./", "name": "n"}]}'}
    for uuid, one in ((REQUEST, request), (CONTAINER, container)):
        text = one if isinstance(one, bytes) else json.dumps(one).encode()
        files[f"records/{uuid}.json"] = text
    return files


def _pair(request: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, bytes]:
    return _records(
        {"uuid": REQUEST, "container_uuid": CONTAINER, **request},
        {"uuid": CONTAINER, "mounts": {}, **container},
    )


DEEP = b"[" * 100_000 + b"]" * 100_000
FIELDS = [
    *(_pair({"container_uuid": one}, {}) for one in (*WRONG, None, REQUEST)),
    *(_pair({"uuid": one}, {}) for one in (*WRONG, None, CONTAINER)),
    *(_pair({}, {"mounts": one}) for one in (*WRONG, None) if one != {}),
    *(_pair({}, {"mounts": {"/x": one}}) for one in (*WRONG, None) if not isinstance(one, dict)),
    *(_pair({}, {"output": one}) for one in WRONG),
    *(_pair({}, {"container_image": one}) for one in WRONG),
    *(_pair({}, {"mounts": {"/x": {"kind": "collection", "portable_data_hash": one}}})
      for one in WRONG if not isinstance(one, str)),
    *(_pair({}, {"mounts": {"/x": {"kind": "collection", "portable_data_hash": PDH, "path": one}}})
      for one in WRONG if not isinstance(one, str)),
    *(_records(one, {}) for one in (b"", b"\0", b"[]", b"null", b"{", b"\xff", DEEP,
      b'{"a":' * 99_999, b"1" * 5000, b'{"uuid": "x"}', b'"\\ud800"', b"NaN")),
    *({METADATA: one} for one in (b"", b"[]", b"{}", b"null", DEEP, b'{"@graph": 1}', b"\xff",
      b'{"@graph": {}}', b'{"@graph": [1]}', b'{"@graph": [[]]}', b'{"@graph": [{"@id": "x"}]}',
      b'{"@graph": [{"@id": "./"}]}', b'{"@graph": ' + DEEP + b"}", b'{"@graph": "./"}')),
]  # fmt: skip


@pytest.mark.attack("has records or metadata of other types, too deep, or of nobody")
@pytest.mark.parametrize("number", range(len(FIELDS)))
def test_records(number: int, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(_packed(FIELDS[number]))
    assert isinstance(_refused(tmp_path / "c"), Corrupt)


ENTITIES: tuple[Any, ...] = (
    [{"@id": "./", "name": "\x1b[2J\x07name"}], [{"@id": "./", "name": "http://127.0.0.1/"}],
    [{"@id": "./", "name": "../../etc"}], [{"@id": "./", "name": "\u202e"}],
    [{"@id": "./", "name": ["x"] * 9}], [{"@id": "./", "name": {"@id": "./"}}],
    [{"@id": "./", "name": "x" * 9_999_999}], [{"@id": "./", "name": {"a": [1] * 9999}}],
    [{"@id": "./", "name": "n", "hasPart": [{"@id": "./"}]}, {"@id": "./", "name": "m"}],
    [*({"@id": f"#{n}", "isPartOf": {"@id": f"#{n + 1}"}} for n in range(20_000)),
     {"@id": "./", "name": "n", "url": "http://169.254.169.254/"}],
)  # fmt: skip


@pytest.mark.attack("has metadata with cycles, thousands of entities, addresses or control codes")
@pytest.mark.parametrize("number", range(len(ENTITIES)))
def test_name_of_a_crate(number: int, tmp_path: Path) -> None:
    text = json.dumps({"@graph": ENTITIES[number]}).encode()
    (tmp_path / "c").write_bytes(_packed({METADATA: text}, method=0))
    with CrateReader(tmp_path / "c") as reader:
        reader.check()
        name = crate_name(reader)
    assert (name.isprintable(), "/" in name, 0 < len(name) <= 80) == (True, False, True)


MANIFESTS = (
    "", "\n", ". x\n", "x", ". d41d8cd98f00b204e9800998ecf8427e 0:0:x\n", ".\n", "\0",
    f". {'0' * 32}+5 0:5:../x\n", f". {'0' * 32}+5 0:5:/x\n", f"./.. {'0' * 32}+5 0:5:x\n",
    f". {'0' * 32}+5 0:6:x\n", f". {'0' * 32}+5 -1:5:x\n", f". {'0' * 32}+5 0:5:a\\000b\n",
    f". {'0' * 32}+99999999999 0:1:x\n", f". {'0' * 32}+5 0:5:x", f". {'0' * 32}+5+A 0:5:x\n" * 2,
    f". {'0' * 32}+5 0:5:x 0:5:x/y\n", f". {'0' * 32}+5 0:5:" + "a/" * 3000 + "x\n", "\x1b[2J\n",
    f". {'0' * 32}+5 99999999999999999999:5:x\n", f". {'0' * 32}+\u0665 0:5:x\n", "\u202e x y\n",
)  # fmt: skip


@pytest.mark.attack("has a manifest that is damaged, leads outside or names other blocks")
@pytest.mark.parametrize("text", MANIFESTS)
def test_manifest(text: str, tmp_path: Path) -> None:
    pdh = manifest.portable_data_hash(text)
    files = {METADATA: b"{}", f"manifests/{pdh}.txt": text.encode(), f"data/{pdh}/x": b"01234"}
    (tmp_path / "c").write_bytes(_packed(files))
    assert isinstance(_refused(tmp_path / "c"), Corrupt | Invalid)


LINES = (
    b"x\n", b"0  x\n", b"g" * 64 + b"  x\n", b"0" * 64 + b" x\n", b"0" * 63 + b"  x\n",
    b"0" * 64 + b"  \n", b"\\" + b"0" * 64 + b"  a\\x\n", b"\xff\n", b"\0\n",
    b"0" * 64 + b"  absent\n",
    b"A" * 64 + b"  x\n", b"\xef\xbb\xbf" + b"0" * 64 + b"  x\n", b"0" * 64 + b"\t x\n", b" \n",
    b"0" * 64 + b"  \x1b[2J\n", b"0" * 64 + b"  x\r\n", b"\\\\" + b"0" * 64 + b"  x\n",
    b"0" * 9_999_999,
    b"0" * 64 + b"  " + b"y" * 4000 + b"\n",
)  # fmt: skip


@pytest.mark.attack("has a list of checksums that is damaged or controls the terminal")
@pytest.mark.parametrize("number", range(len(LINES)))
def test_list(number: int, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(_packed({}, listed=LINES[number]))
    _refused(tmp_path / "c")
