"""Spelling of file names that are no UTF-8 text.

A file name of Linux is any sequence of bytes without NUL and slash; a manifest holds UTF-8 only. A
name that is not UTF-8 is stored as `MARK` followed by the name with each foreign byte, and each
percent sign, as `%` and two hexadecimal digits. A valid name that begins with `MARK` is spelled in
the same way, so that two names are never spelled alike. Every other name is stored as it is.

Names of the file system are text as `os.fsdecode` returns it (PEP 383): a foreign byte 0x80 to 0xFF
is a character U+DC80 to U+DCFF. Source: docs/spec/containers, section Output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "%raw-"
"""Start of a spelled name."""

_FOREIGN = re.compile("[%\udc80-\udcff]")
_ESCAPE = re.compile(rb"%([0-9A-F]{2})")


def is_plain(name: str) -> bool:
    """Whether a name is stored as it is."""
    return _is_utf8(name) and not name.startswith(MARK)


def are_plain(names: Sequence[str]) -> bool:
    """Whether all names are stored as they are; quick for very many."""
    joined = "/".join(names)
    return is_plain(joined) and f"/{MARK}" not in joined


def spell(name: str) -> str:
    """The name under which a file of the file system is stored: valid UTF-8 text."""
    return name if is_plain(name) else MARK + _FOREIGN.sub(_escape, name)


def unspell(name: str) -> bytes:
    """The bytes of the file name that is stored as `name`."""
    if not name.startswith(MARK):
        return name.encode()
    return _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), name.removeprefix(MARK).encode())


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]) & 0xFF:02X}"
