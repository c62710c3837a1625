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
    assert unspell(stored) == raw
    assert is_plain(as_text(raw)) == (stored == as_text(raw))


@given(FILE_NAMES, FILE_NAMES)
def test_no_two_names_are_spelled_alike(first: bytes, second: bytes) -> None:
    assert (spell(as_text(first)) == spell(as_text(second))) == (first == second)


def test_a_valid_name_with_the_mark_is_spelled_too() -> None:
    assert not is_plain(f"{MARK}a")
