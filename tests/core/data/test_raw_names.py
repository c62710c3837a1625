from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.raw_names import MARK, is_plain, spell, unspell

FILE_NAMES = st.binary(min_size=1, max_size=40).map(
    lambda raw: raw.replace(b"\0", b"\xff").replace(b"/", b"%raw-")
)


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        (b"\xff\xfe", "%raw-%FF%FE"),
        (b"caf\xe9 100%.txt", "%raw-caf%E9 100%25.txt"),
        (b"%raw-x", "%raw-%25raw-x"),
        (b"%raw-%41", "%raw-%25raw-%2541"),
        (b"caf%C3%A9.html", "caf%C3%A9.html"),
        ("café\n".encode(), "café\n"),
    ],
)
def test_names_are_spelled(raw: bytes, stored: str) -> None:
    assert spell(as_text(raw)) == stored
    assert unspell(stored) == raw


@given(FILE_NAMES)
def test_a_spelled_name_gives_its_bytes_back(raw: bytes) -> None:
    stored = spell(as_text(raw))
    assert stored.encode().decode() == stored
    assert unspell(stored) == raw or stored == as_text(raw)
    assert not is_plain(as_text(raw)) or stored == as_text(raw)


@given(FILE_NAMES)
def test_a_name_is_spelled_once(raw: bytes) -> None:
    stored = spell(as_text(raw))
    assert spell(stored) == stored


@given(st.sets(FILE_NAMES, max_size=8), st.integers(0, 3))
def test_no_two_entries_of_a_directory_are_spelled_alike(raws: set[bytes], copies: int) -> None:
    names = {as_text(raw) for raw in raws}
    for _ in range(copies):
        names |= {spell(name) for name in names}
    assert len({spell(name, names.__contains__) for name in names}) == len(names)


def test_the_spelling_of_another_entry_is_spelled_again() -> None:
    names = {"\udcff", "%raw-%FF", "%raw-%25raw-%25FF"}
    assert [spell(name, names.__contains__) for name in sorted(names, key=len)] == [
        "%raw-%FF",
        "%raw-%25raw-%25FF",
        "%raw-%25raw-%2525raw-%2525FF",
    ]


def test_a_valid_name_with_the_mark_is_spelled_too() -> None:
    assert not is_plain(f"{MARK}a")
