"""The last lines of log files."""

from __future__ import annotations

from lading.core.log_tail import last_texts

STAMP = b"2026-01-02T03:04:05.000000000Z "


def test_lines_have_no_stamps_and_no_empty_lines() -> None:
    data = STAMP + b"first\n" + STAMP + b"\n" + STAMP + b"second\n"
    assert last_texts(data, is_cut=False) == ["first", "second"]


def test_the_last_ones_are_kept() -> None:
    data = b"".join(b"%d\n" % number for number in range(20))
    assert last_texts(data, is_cut=False, most=2) == ["18", "19"]


def test_a_line_that_began_earlier_is_left_out() -> None:
    assert last_texts(b"art\nwhole\n", is_cut=True) == ["whole"]
    assert last_texts(b"one long line", is_cut=True) == ["one long line"]


def test_nothing_controls_a_terminal() -> None:
    evil = b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x07bell \xe2\x80\xaetxt\xff\n"
    assert last_texts(evil, is_cut=False) == ["red \\x07bell \\u202etxt\ufffd"]


def test_a_progress_bar_shows_its_last_state() -> None:
    assert last_texts(b"10 %\r50 %\r100 %\r\n", is_cut=False) == ["100 %"]


def test_a_long_line_is_cut() -> None:
    (text,) = last_texts(b"x" * 1000, is_cut=False)
    assert (len(text), text[-1]) == (300, "…")
