"""The last lines of a log file as texts that cannot control a terminal.

A log line begins with a timestamp, which is left out, as are escape sequences of terminals. A
progress bar writes over itself with carriage returns: its last state counts. Any other character
that is not printable, such as one that changes the direction of text, is spelled by its code.
"""

from __future__ import annotations

import re
from typing import Final

STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?(\d*)Z ")
"""The timestamp of a line, to nanoseconds."""
ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""The escape sequences of terminals (ECMA-48, 5.4)."""
MOST_LINES: Final = 12
MOST_BYTES: Final = 16 << 10
"""Bytes at the end of a file that are looked at."""
_WIDEST: Final = 300


def last_texts(data: bytes, *, is_cut: bool, most: int = MOST_LINES) -> list[str]:
    """The last `most` lines with a text in the bytes at the end of a log file; `is_cut`: the first
    line may have begun earlier.
    """
    lines = data.split(b"\n")
    if is_cut and len(lines) > 1:
        lines = lines[1:]
    texts = [text for line in lines if (text := _text_of(line))]
    return texts[-most:]


def _text_of(line: bytes) -> str:
    text = line.decode(errors="replace")
    stamp = STAMP.match(text)
    if stamp:
        text = text[stamp.end() :]
    shown = ESCAPE.sub("", text.rstrip("\r").rpartition("\r")[2]).expandtabs().rstrip()
    cut = f"{shown[: _WIDEST - 1]}…" if len(shown) > _WIDEST else shown
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cut
    )
