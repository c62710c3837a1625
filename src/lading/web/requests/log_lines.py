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
    content: str
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
    content = data.decode(errors="replace")
    stamp = STAMP.match(content)
    order = f"{stamp[1]}.{stamp[2]:0<9}" if stamp else before
    if stamp:
        content = content[stamp.end() :]
    # A progress bar writes over itself: its last state counts.
    shown = ESCAPE.sub("", content.rstrip("\r").rpartition("\r")[2])
    cut = f"{shown[:_LONGEST]}… ({len(shown)} characters)" if len(shown) > _LONGEST else shown
    return LogLine(
        source=source,
        at=at,
        end=at + len(data) + 1,
        order=order,
        content=cut,
        has_stamp=stamp is not None,
    )


def split(data: bytes, start: int, *, source: str, is_cut: bool) -> list[LogLine]:
    """The lines of some bytes; `is_cut`: the first one may have begun earlier and is left out."""
    raw_lines = data.split(b"\n")
    if not raw_lines[-1]:
        raw_lines.pop()
    if is_cut and len(raw_lines) > 1:
        start += len(raw_lines[0]) + 1
        raw_lines = raw_lines[1:]
    lines: list[LogLine] = []
    for raw_line in raw_lines:
        before = lines[-1].order if lines else ""
        lines.append(parse_line(raw_line, start, source=source, before=before))
        start += len(raw_line) + 1
    return lines


def last_lines(parts: Mapping[str, LogPart], most: int) -> LogView:
    """The last lines of these parts together."""
    # Lines before the first line of a part are not known: lines of other files from that time would
    # have a gap between them.
    begun = [
        log_part.lines[0].order for log_part in parts.values() if log_part.start and log_part.lines
    ]
    complete_from = max(begun, default="")
    lines = _merged(line for line in _all(parts) if line.order >= complete_from)[-most:]
    first = {line.source: line.at for line in reversed(lines)}
    return LogView(
        lines=lines,
        start={name: first.get(name, log_part.end) for name, log_part in parts.items()},
        end={name: log_part.end for name, log_part in parts.items()},
        size={name: log_part.size for name, log_part in parts.items()},
    )


def first_lines(parts: Mapping[str, LogPart], most: int) -> LogView:
    """The first lines of these parts together."""
    ended = [
        log_part.lines[-1].order
        for log_part in parts.values()
        if log_part.is_cut and log_part.lines
    ]
    complete_until = min(ended, default=None)
    lines = _merged(
        line for line in _all(parts) if complete_until is None or line.order <= complete_until
    )[:most]
    last = {line.source: line.end for line in lines}
    return LogView(
        lines=lines,
        start={name: log_part.start for name, log_part in parts.items()},
        # A last line may have no line break.
        end={
            name: min(last.get(name, log_part.start), log_part.end)
            for name, log_part in parts.items()
        },
        size={name: log_part.size for name, log_part in parts.items()},
    )


def around(log_part: LogPart, at: int, most: int, *, name: str) -> LogView:
    """The lines around that which begins at byte `at`, which is marked."""
    marked = [replace(line, is_hit=line.at == at) for line in log_part.lines]
    middle = next((position for position, line in enumerate(marked) if line.is_hit), 0)
    lines = marked[max(0, middle - most // 2) : middle + most // 2]
    return LogView(
        lines=lines,
        start={name: lines[0].at if lines else log_part.start},
        end={name: min(lines[-1].end, log_part.end) if lines else log_part.end},
        size={name: log_part.size},
    )


def show_cursor(cursor: Cursor) -> str:
    """A cursor as a parameter of an address."""
    return ",".join(f"{quote(name, safe='')}:{offset}" for name, offset in cursor.items())


def read_cursor(cursor_text: str, names: Iterable[str]) -> dict[str, int]:
    """The cursor of an address for these files; files that it does not have begin at 0. Raises
    Invalid.
    """
    cursor = dict.fromkeys(names, 0)
    for entry in filter(None, cursor_text.split(",")):
        name, separator, offset = entry.rpartition(":")
        if not separator or not offset.isascii() or not offset.isdigit() or len(offset) > _DIGITS:
            raise Invalid(f"{cursor_text[:60]!r}: is no place in a log")
        if unquote(name) in cursor:
            cursor[unquote(name)] = int(offset)
    return cursor


def _all(parts: Mapping[str, LogPart]) -> Iterable[LogLine]:
    return (line for log_part in parts.values() for line in log_part.lines)


def _merged(lines: Iterable[LogLine]) -> list[LogLine]:
    # Lines of one file stay in their order.
    return sorted(lines, key=lambda line: line.order)
