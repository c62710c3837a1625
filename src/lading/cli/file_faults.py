"""Faults of files that end a command: a full disk, and files that this user may not use.

A fault is told in one line where it is the user's to mend. All others are faults of this program,
and must be seen whole.
"""

from __future__ import annotations

import errno
import tempfile

from lading.cli import hangup

_DENIED = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "its file system is read-only",
}


def text_of(error: BaseException) -> str:
    """The fault and its remedy in one line; "" for a fault of another kind."""
    if hangup.is_full_disk(error):
        return _full_disk(error)
    faults = _faults(error)
    if not all(isinstance(fault, OSError) for fault in faults):
        return ""
    first = faults[0]
    assert isinstance(first, OSError)
    if first.filename is None and "temporary directory" in str(first.strerror):
        return "no directory for temporary files can be written; TMPDIR names another one"
    if first.filename is None or any(
        getattr(fault, "errno", None) not in _DENIED for fault in faults
    ):
        return ""
    reason = _DENIED[first.errno or 0]
    return f"{first.filename}: {reason}; choose another place, or change who may use this one"


def _full_disk(error: BaseException) -> str:
    if stream := hangup.full_stream(error):
        return f"{stream}: its disk is full; make room there"
    named = getattr(_faults(error)[0], "filename", None)
    place = named or f"a file that is written here, or a temporary one in {tempfile.gettempdir()}"
    return f"{place}: no room is left on the disk; make room, or write to another one"


def _faults(error: BaseException) -> list[BaseException]:
    """The errors in a group, of groups in it too; any other error alone."""
    if isinstance(error, BaseExceptionGroup):
        return [fault for member in error.exceptions for fault in _faults(member)]
    return [error]
