"""Logins that a person allows on the page."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, strategies

from lading.core.policy.device_logins import (
    code_of,
    digest_of,
    is_digest,
)


def test_the_digest_is_what_the_site_stores() -> None:
    assert digest_of("secret") == hashlib.sha256(b"secret").hexdigest()
    assert is_digest(digest_of("secret"))


@pytest.mark.parametrize("text", ["", "x" * 64, "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_other_texts_are_no_digest(text: str) -> None:
    assert not is_digest(text)


@given(strategies.text(), strategies.text())
def test_a_code_has_eight_letters_that_nobody_confuses(one: str, other: str) -> None:
    code = code_of(one)
    assert len(code) == 9
    assert code[4] == "-"
    assert not set(code) & set("ILOUilou")
    assert (one == other) <= (code == code_of(other))


def test_codes_differ() -> None:
    assert len({code_of(str(number)) for number in range(1000)}) == 1000
