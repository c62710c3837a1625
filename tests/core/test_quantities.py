from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from lading.core.errors import Invalid
from lading.core.quantities import (
    age,
    bounded,
    duration,
    parse_duration,
    parse_size,
    shorten,
    shorten_pair,
    show_bytes,
    size,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (5, 5),
        ("5", 5),
        ("1.5KiB", 1536),
        ("2GB", 2 * 10**9),
        ("1 MiB", 1 << 20),
        ("1PiB", 1 << 50),
        ("2PB", 2 * 10**15),
    ],
)
def test_sizes(text: str | int, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (5, "5 B"),
        (1536, "1.5 KiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 51, "2.0 PiB"),
        (1 << 61, "2048.0 PiB"),
    ],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.00 s"), (0.42, "0.42 s"), (1.5, "1.5 s"), (17, "17 s"), (190, "3 min"), (1e6, "12 d")],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age("2025-12-31T23:59:00Z", now) == "1 min"
    assert age(None, now) == ""


def test_the_end_of_a_long_text_is_cut_off() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("abc", "abd", ("abc", "abd")),
        ("a" * 20, "b" * 20, ("aaaaaaaa…", "bbbbbbbb…")),
        ("x" * 30 + "1", "x" * 30 + "2", ("…xxx1", "…xxx2")),
        ("x" * 30, "x" * 30 + "234567", ("…xxx", "…xxx2345…")),
    ],
)
def test_the_first_difference_of_two_long_texts_is_shown(
    before: str, after: str, shown: tuple[str, str]
) -> None:
    assert shorten_pair(before, after, 9) == shown


@pytest.mark.parametrize(
    ("text", "seconds"), [(5, 5), ("336h", 1209600), ("1m30s", 90), ("250ms", 0.25), (0.5, 0.5)]
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_an_empty_duration_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_duration("")


@pytest.mark.parametrize("text", ["", "big", "-1", "1XB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/in: is no file", "/in: is no file"),
        ("word " * 100, "word " * 100),
        (f"/{'x' * 299} is no file", f"/{'x' * 299} is no file"),
        (f"/{'x' * 4000}y is no file", f"/{'x' * 199}…{'x' * 98}y is no file"),
        (f"say '{'a b ' * 900}' it", f"say '{('a b ' * 900)[:199]}…{('a b ' * 900)[-98:]}' it"),
        (f"an apostrophe's {'a b ' * 90}", f"an apostrophe's {'a b ' * 90}"),
    ],
)
def test_messages_have_no_long_value(message: str, shown: str) -> None:
    assert bounded(message) == shown


def test_people_see_the_bytes_of_a_name() -> None:
    assert show_bytes(repr("a\udcff\udcfe\n")) == r"'a\xff\xfe\n'"
    assert show_bytes(repr("\ud800")) == r"'\ud800'"


@pytest.mark.parametrize("parse", [parse_size, parse_duration])
def test_a_number_without_end_is_refused(parse: Callable[[str], float]) -> None:
    with pytest.raises(Invalid, match="not a ") as refused:
        parse("9" * 5000 + ("s" if parse is parse_duration else ""))
    assert len(refused.value.message) < 300
