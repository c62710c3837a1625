"""Lines of logs and their order."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.web.requests.log_lines import (
    LogPart,
    first_lines,
    last_lines,
    parse_line,
    read_cursor,
    show_cursor,
    split,
)


def _part(name: str, *lines: str, start: int = 0, is_cut: bool = False) -> LogPart:
    data = "".join(f"{one}\n" for one in lines).encode()
    found = split(data, start, source=name, is_cut=False)
    end = start + len(data)
    return LogPart(lines=found, start=start, end=end, size=end + is_cut, is_cut=is_cut)


def _at(second: int, text: str = "x") -> str:
    return f"2026-01-02T03:04:{second:02}Z {text}"


def test_fractions_of_any_length_are_in_order() -> None:
    times = ["05Z", "05.1Z", "05.12Z", "05.123456789Z"]
    orders = [parse_line(f"2026-01-02T03:04:{one} x".encode(), 0, source="").order for one in times]
    assert orders == sorted(orders)
    assert len(set(orders)) == 4


def test_the_first_line_may_have_begun_earlier() -> None:
    assert [one.at for one in split(b"ab\ncd\n", 10, source="", is_cut=True)] == [13]
    assert [one.content for one in split(b"only", 10, source="", is_cut=True)] == ["only"]


def test_a_long_line_is_cut() -> None:
    assert parse_line(b"x" * 5000, 0, source="").content.endswith("… (5000 characters)")


def test_lines_from_before_the_first_known_one_come_later() -> None:
    parts = {"a": _part("a", _at(5), start=100), "b": _part("b", _at(1), _at(7))}
    view = last_lines(parts, 10)
    assert [(one.source, one.at) for one in view.lines] == [("a", 100), ("b", 23)]
    assert view.start == {"a": 100, "b": 23}
    assert view.has_earlier


def test_lines_after_the_last_known_one_come_later() -> None:
    parts = {"a": _part("a", _at(5), is_cut=True), "b": _part("b", _at(1), _at(7))}
    view = first_lines(parts, 10)
    assert [one.source for one in view.lines] == ["b", "a"]
    assert view.end == {"a": 23, "b": 23}
    assert view.has_later


def test_cursors() -> None:
    cursor = {"a,b:c.txt": 5, "d": 0}
    assert read_cursor(show_cursor(cursor), ["a,b:c.txt", "d", "e"]) == {**cursor, "e": 0}
    assert read_cursor("other:5", ["a"]) == {"a": 0}
    for wrong in ("x", "a:", "a:-1", "a:²", "a:1234567890123456"):
        with pytest.raises(Invalid, match="no place in a log"):
            read_cursor(wrong, ["a"])
