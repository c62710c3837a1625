from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.fileserving import byte_ranges
from lading.fileserving.byte_ranges import Span


@pytest.mark.parametrize(
    ("header", "size", "expected"),
    [
        (None, 10, None),
        ("bytes=0-0", 10, (Span(0, 1),)),
        ("bytes = 3-", 10, (Span(3, 10),)),
        ("Bytes=-3", 10, (Span(7, 10),)),
        ("bytes=5-6,0-1", 10, (Span(0, 2), Span(5, 7))),
        ("bytes=0-4, 5-6", 10, (Span(0, 7),)),
        ("bytes=0-1,50-", 10, (Span(0, 2),)),
        ("bytes=10-", 10, ()),
        ("bytes=-5", 0, ()),
        ("bytes=-", 10, None),
        ("bytes=", 10, None),
        ("bytes=2-1", 10, None),
        ("bytes=a-b", 10, None),
        (f"bytes={'0' * 19}-1", 10, None),
        ("bytes=" + ",".join(["0-1"] * 65), 10, None),
    ],
)
def test_parse(header: str | None, size: int, expected: tuple[Span, ...] | None) -> None:
    assert byte_ranges.parse_ranges(header, size) == expected


@given(st.text(alphabet="0123456789-, =bytes", max_size=40), st.integers(0, 100))
def test_spans_lie_in_the_file_and_apart(text: str, size: int) -> None:
    found = byte_ranges.parse_ranges(f"bytes={text}", size) or ()
    assert all(0 <= one.start < one.end <= size for one in found)
    assert all(before.end < after.start for before, after in pairwise(found))


def test_the_header_of_a_span() -> None:
    assert Span(3, 5).header(9) == "bytes 3-4/9"
