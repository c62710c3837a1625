"""ELF headers and the loader's lists."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from lading.client.images.linkage import Binary, Linkage, list_libraries, read_binary


def _elf(*, wide: bool, interpreter: str = "/lib/ld.so", big: bool = False) -> bytes:
    order, name = ">" if big else "<", interpreter.encode() + b"\0"
    ident = b"\x7fELF" + bytes((2 if wide else 1, 2 if big else 1, 1)) + bytes(9)
    at = 64 + (56 if wide else 32) * 2
    if wide:
        head = ident + struct.pack(
            order + "HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
        )
        table = struct.pack(order + "IIQQQQQQ", 2, 4, 0, 0, 0, 0, 0, 8)
        table += struct.pack(order + "IIQQQQQQ", 3, 4, at, 0, 0, len(name), len(name), 1)
    else:
        head = (
            ident + struct.pack(order + "HHIIIIIHHHHHH", 3, 3, 1, 0, 64, 0, 0, 52, 32, 2, 0, 0, 0)
        ).ljust(64, b"\0")
        table = struct.pack(order + "IIIIIIII", 2, 0, 0, 0, 0, 0, 4, 4)
        table += struct.pack(order + "IIIIIIII", 3, at, 0, 0, len(name), len(name), 4, 1)
    return head + table + name


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("big", [True, False])
def test_headers_of_every_kind(tmp_path: Path, wide: bool, big: bool) -> None:
    path = tmp_path / "program"
    path.write_bytes(_elf(wide=wide, big=big))
    assert read_binary(path) == Binary(loader="/lib/ld.so", dynamic=True)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", _elf(wide=True)[:70]])
def test_what_is_no_program(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert read_binary(path) is None
    assert read_binary(tmp_path / "absent") is None


def test_the_libraries_of_this_python() -> None:
    own = read_binary(Path(sys.executable))
    assert own is not None
    found = list_libraries(own.loader, Path(sys.executable), environ={})
    assert any("libc.so" in name for name in found.libraries)
    assert found.missing == ()


def _loader(tmp_path: Path, script: str) -> str:
    path = tmp_path / "ld.so"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_what_only_the_cache_knows_is_reported(tmp_path: Path) -> None:
    loader = _loader(
        tmp_path,
        """printf '\\tlinux-vdso.so.1 (0x1)\\n\\tliba.so => /lib/liba.so (0x2)\\n'
        case $1 in
            --inhibit-cache) printf '\\tlibb.so => not found\\n';;
            *) printf '\\tlibb.so => /opt/b/libb.so (0x3)\\n';;
        esac""",
    )
    assert list_libraries(loader, tmp_path / "x", environ={}) == Linkage(
        libraries=("/lib/liba.so", "/opt/b/libb.so"), directories=("/opt/b",)
    )


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    loader = _loader(tmp_path, "printf '\\tlibb.so => not found\\n'; exit 127")
    assert list_libraries(loader, tmp_path / "x", environ={}).missing == ("libb.so",)


def test_a_loader_that_cannot_be_run_lists_nothing(tmp_path: Path) -> None:
    assert list_libraries(str(tmp_path / "ld-musl.so"), tmp_path / "x", environ={}) == Linkage()
