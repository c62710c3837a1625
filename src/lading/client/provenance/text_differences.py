"""Differences between two versions of a small file: lines of a text, cells of a table."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator
from typing import Final

LARGEST: Final = 64 << 10
"""Bytes of a file that is compared so."""
_MOST_LINES: Final = 2000
"""Lines of a file that is compared so: more take too long."""
_LONGEST: Final = 160
"""Characters of a line that are shown."""
_DELIMITERS: Final = {".tsv": "\t", ".csv": ","}


def content_difference(name: str, before: bytes, after: bytes, *, most: int = 20) -> list[str]:
    """At most `most` lines about the difference; none for binary files and for files too large.

    A table (`.csv`, `.tsv`) with the same columns and rows in both versions is compared cell by
    cell; its first row has the headings, its first column the names of the rows.
    """
    texts = [_text(content) for content in (before, after)]
    old, new = texts
    if old is None or new is None:
        return []
    delimiter = _DELIMITERS.get(name[name.rfind(".") :] if "." in name else "")
    lines = list(_cells(old, new, delimiter)) if delimiter else []
    lines = lines or list(_unified(old, new))
    shown = [_plain(line) for line in lines[:most]]
    left = len(lines) - len(shown)
    return [*shown, f"... {left} more"] if left else shown


def _text(data: bytes) -> list[str] | None:
    if len(data) > LARGEST or b"\0" in data:
        return None
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= _MOST_LINES else None


def _unified(old: list[str], new: list[str]) -> Iterator[str]:
    lines = difflib.unified_diff(old, new, lineterm="", n=1)
    # The names of the files are shown already.
    for number, line in enumerate(lines):
        if number > 1:
            yield line


def _cells(old: list[str], new: list[str], delimiter: str) -> Iterator[str]:
    """Each cell that differs; nothing if the tables have other columns or rows."""
    tables = [list(csv.reader(lines, delimiter=delimiter)) for lines in (old, new)]
    before, after = tables
    shapes = [[len(row) for row in table] for table in tables]
    if shapes[0] != shapes[1] or not before or before[0] != after[0]:
        return
    if [row[:1] for row in before] != [row[:1] for row in after]:
        return
    for number, (old_row, new_row) in enumerate(zip(before, after, strict=True)):
        for column, (was, now) in enumerate(zip(old_row, new_row, strict=True)):
            if was != now:
                heading = before[0][column] if column < len(before[0]) else str(column + 1)
                yield f"row {number} ({old_row[0]}), {heading}: {was} -> {now}"


def _plain(line: str) -> str:
    shown = "".join(
        character if character.isprintable() or character == "\t" else "?" for character in line
    )
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
