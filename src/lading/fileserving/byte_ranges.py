"""Byte ranges of requests for files (RFC 9110, 14).

An invalid header and more than `MOST` ranges are ignored: the reader gets the whole file. Ranges
that overlap or touch are merged, so that no byte is sent twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Ranges in one request; merging and sending very many would cost more than the whole file.
MOST: Final = 64
# At most 18 digits: larger numbers are no positions in a file.
_ONE: Final = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` to before `end`."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def header(self, size: int) -> str:
        """The Content-Range header of the range."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


def parse_ranges(header: str | None, size: int) -> tuple[Span, ...] | None:
    """The ranges of a file of `size` bytes, in order; None for the whole file, empty if no range is
    satisfiable.
    """
    unit, _, text = (header or "").partition("=")
    parts = [piece.strip() for piece in text.split(",")]
    if unit.strip().lower() != "bytes" or len(parts) > MOST:
        return None
    spans: list[Span] = []
    for piece in parts:
        # A single malformed range makes the header invalid.
        match = _ONE.fullmatch(piece)
        if (
            match is None
            or match.groups() == ("", "")
            or (all(match.groups()) and int(match[2]) < int(match[1]))
        ):
            return None
        span = _span(match[1], match[2], size)
        if len(span) > 0:
            spans.append(span)
    return _joined(spans)


# "-N" is the last N bytes.
def _span(first: str, last: str, size: int) -> Span:
    if not first:
        return Span(max(0, size - int(last)), size)
    start = min(int(first), size)
    return Span(start, max(start, min(size, int(last) + 1)) if last else size)


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return tuple(joined)
