"""Spelling of file names that are no UTF-8 text.

A file name of Linux is any sequence of bytes without NUL and slash; a manifest holds UTF-8 only. A
name that is not UTF-8 is stored as `MARK` followed by the name with each foreign byte, and each
percent sign, as `%` and two hexadecimal digits. Every other name is stored as it is, with two
exceptions: a valid name that begins with `MARK` is spelled in the same way where it is not itself
such a spelling, or where it is the spelling of another entry of its directory. So no two entries of
a directory are spelled alike, and a name that was spelled once, copied and stored again stays.

Names of the file system are text as `os.fsdecode` returns it (PEP 383): a foreign byte 0x80 to 0xFF
is a character U+DC80 to U+DCFF. Source: docs/spec/containers, section Output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

MARK = "%raw-"
"""Start of a spelled name."""

_FOREIGN = re.compile("[%\udc80-\udcff]")
_ESCAPE = re.compile(rb"%([0-9A-F]{2})")


def is_plain(name: str) -> bool:
    """Whether a name is stored as it is in every directory."""
    return _is_utf8(name) and not name.startswith(MARK)


def are_plain(names: Sequence[str]) -> bool:
    """Whether `is_plain` holds for all names; quick for very many."""
    joined = "/".join(names)
    return is_plain(joined) and f"/{MARK}" not in joined


def spell(name: str, is_sibling: Callable[[str], bool] = lambda _: False) -> str:
    """The name under which an entry of a directory is stored: valid UTF-8 text.

    `is_sibling` tells whether the directory has an entry of a name; it is called for names that
    begin with `MARK` only.
    """
    if is_plain(name):
        return name
    if _is_utf8(name):
        spelled = unspell(name).decode("utf-8", "surrogateescape")
        is_spelling = not is_plain(spelled) and _escaped(spelled) == name
        if is_spelling and not is_sibling(spelled):
            return name
    return _escaped(name)


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


def _escaped(name: str) -> str:
    return MARK + _FOREIGN.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]) & 0xFF:02X}"
