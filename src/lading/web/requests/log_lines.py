"""Lines of log files, and several files as one log in order of time.

A place in such a log is a cursor: a byte of each file. Timestamps come from the supervisor; a line
without one has that of the line before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote

from lading.core.errors import Invalid
from lading.core.log_tail import ESCAPE, STAMP

Cursor = Mapping[str, int]
"""A byte of each file, by name."""
_LONGEST: Final = 4000
"""Characters of a line that are shown."""
_DIGITS: Final = 15
"""Digits of a place in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line from byte `at` to byte `end` of the file `source`; `order` sorts by time."""

    source: str
    at: int
    end: int
    order: str
    text: str
    has_stamp: bool
    is_hit: bool = False

    @property
    def stamp(self) -> str:
        """The time to the second; "" for a line without one."""
        return self.order[:19] if self.has_stamp else ""

    @property
    def clock(self) -> str:
        """The time of day."""
        return self.stamp[11:]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Lines of one file from byte `start` up to byte `end`, of `size` bytes in all."""

    lines: list[LogLine]
    start: int
    end: int
    size: int
    is_cut: bool = False
    """Whether there are more lines behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """Lines of several files in order of time, from one cursor to another."""

    lines: list[LogLine]
    start: Cursor
    end: Cursor
    size: Cursor

    @property
    def has_earlier(self) -> bool:
        """Whether there are lines before these."""
        return any(self.start.values())

    @property
    def has_later(self) -> bool:
        """Whether there are lines after these."""
        return any(self.end[name] < size for name, size in self.size.items())


def parse_line(data: bytes, at: int, *, source: str, before: str = "") -> LogLine:
    """The line that begins at byte `at`, without escape sequences of terminals; `before` is the
    order of the line before it.
    """
    text = data.decode(errors="replace")
    stamp = STAMP.match(text)
    order = f"{stamp[1]}.{stamp[2]:0<9}" if stamp else before
    if stamp:
        text = text[stamp.end() :]
    # A progress bar writes over itself: its last state counts.
    shown = ESCAPE.sub("", text.rstrip("\r").rpartition("\r")[2])
    cut = f"{shown[:_LONGEST]}… ({len(shown)} characters)" if len(shown) > _LONGEST else shown
    return LogLine(
        source=source,
        at=at,
        end=at + len(data) + 1,
        order=order,
        text=cut,
        has_stamp=stamp is not None,
    )


def split(data: bytes, start: int, *, source: str, is_cut: bool) -> list[LogLine]:
    """The lines of some bytes; `is_cut`: the first one may have begun earlier and is left out."""
    parts = data.split(b"\n")
    if not parts[-1]:
        parts.pop()
    if is_cut and len(parts) > 1:
        start += len(parts[0]) + 1
        parts = parts[1:]
    lines: list[LogLine] = []
    for part in parts:
        before = lines[-1].order if lines else ""
        lines.append(parse_line(part, start, source=source, before=before))
        start += len(part) + 1
    return lines


def last_lines(parts: Mapping[str, LogPart], most: int) -> LogView:
    """The last lines of these parts together."""
    # Lines before the first line of a part are not known: lines of other files from that time would
    # have a gap between them.
    begun = [one.lines[0].order for one in parts.values() if one.start and one.lines]
    known = max(begun, default="")
    lines = _merged(one for one in _all(parts) if one.order >= known)[-most:]
    first = {one.source: one.at for one in reversed(lines)}
    return LogView(
        lines=lines,
        start={name: first.get(name, one.end) for name, one in parts.items()},
        end={name: one.end for name, one in parts.items()},
        size={name: one.size for name, one in parts.items()},
    )


def first_lines(parts: Mapping[str, LogPart], most: int) -> LogView:
    """The first lines of these parts together."""
    ended = [one.lines[-1].order for one in parts.values() if one.is_cut and one.lines]
    known = min(ended, default=None)
    lines = _merged(one for one in _all(parts) if known is None or one.order <= known)[:most]
    last = {one.source: one.end for one in lines}
    return LogView(
        lines=lines,
        start={name: one.start for name, one in parts.items()},
        # A last line may have no line break.
        end={name: min(last.get(name, one.start), one.end) for name, one in parts.items()},
        size={name: one.size for name, one in parts.items()},
    )


def around(part: LogPart, at: int, most: int, *, name: str) -> LogView:
    """The lines around that which begins at byte `at`, which is marked."""
    marked = [replace(one, is_hit=one.at == at) for one in part.lines]
    middle = next((place for place, one in enumerate(marked) if one.is_hit), 0)
    lines = marked[max(0, middle - most // 2) : middle + most // 2]
    return LogView(
        lines=lines,
        start={name: lines[0].at if lines else part.start},
        end={name: min(lines[-1].end, part.end) if lines else part.end},
        size={name: part.size},
    )


def show_cursor(cursor: Cursor) -> str:
    """A cursor as a parameter of an address."""
    return ",".join(f"{quote(name, safe='')}:{place}" for name, place in cursor.items())


def read_cursor(text: str, names: Iterable[str]) -> dict[str, int]:
    """The cursor of an address for these files; files that it does not have begin at 0. Raises
    Invalid.
    """
    found = dict.fromkeys(names, 0)
    for part in filter(None, text.split(",")):
        name, separator, place = part.rpartition(":")
        if not separator or not place.isascii() or not place.isdigit() or len(place) > _DIGITS:
            raise Invalid(f"{text[:60]!r}: is no place in a log")
        if unquote(name) in found:
            found[unquote(name)] = int(place)
    return found


def _all(parts: Mapping[str, LogPart]) -> Iterable[LogLine]:
    return (line for part in parts.values() for line in part.lines)


def _merged(lines: Iterable[LogLine]) -> list[LogLine]:
    # Lines of one file stay in their order.
    return sorted(lines, key=lambda one: one.order)
