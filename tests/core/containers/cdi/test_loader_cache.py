"""The cache of the loader, as glibc writes it."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.cdi.loader_cache import read_libraries
from lading.testing.images import make_loader_cache

LIBRARIES = [("libcuda.so.1", "/usr/lib/libcuda.so.1"), ("libc.so.6", "/lib/libc.so.6")]


def test_names_and_paths() -> None:
    assert [*read_libraries(make_loader_cache(LIBRARIES))] == LIBRARIES
    # An older table before it, which ends at any place.
    assert [*read_libraries(b"ld.so-1.7.0\0" * 4 + make_loader_cache(LIBRARIES))] == LIBRARIES


def test_libraries_of_32_bits_are_left_out() -> None:
    assert [*read_libraries(make_loader_cache(LIBRARIES, flags=0x0003))] == []


def test_an_entry_without_an_absolute_path_is_left_out() -> None:
    damaged = [("libodd.so.1", "usr/lib/libodd.so.1"), ("", "/usr/lib/libodd.so.2")]
    assert [*read_libraries(make_loader_cache([*damaged, *LIBRARIES]))] == LIBRARIES


@given(st.binary(max_size=400))
def test_any_bytes_are_read(content: bytes) -> None:
    whole = make_loader_cache(LIBRARIES)
    for damaged in (content, whole[:48] + content, whole[: len(content)]):
        assert all(path.startswith("/") for _, path in read_libraries(damaged))


def test_a_count_beyond_the_end() -> None:
    whole = bytearray(make_loader_cache(LIBRARIES))
    struct.pack_into("<I", whole, 20, 1 << 31)
    assert [*read_libraries(bytes(whole))] == []
