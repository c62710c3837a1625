"""Extended attributes of the files of a layer, some of which a file system cannot store."""

from __future__ import annotations

import errno
import os
import posixpath

# Answers of setxattr(2) about the attribute itself: no file system, or none of this kind, has it.
_NO_ATTRIBUTE = (
    errno.E2BIG,
    errno.EINVAL,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.ERANGE,
)
# Blocks that the disk has when it is not the disk that refuses an attribute for lack of room.
_SOME_BLOCKS = 1024


def set_attribute(place: int | str, name: str, value: bytes, *, follow_symlinks: bool) -> str:
    """Set an extended attribute; return why it cannot be set, or "". Raises OSError when the disk
    fails.
    """
    try:
        os.setxattr(place, name, value, follow_symlinks=follow_symlinks)
    except OSError as error:
        # ENOSPC: the attributes of a file have room in one block, whatever the disk has.
        if error.errno in _NO_ATTRIBUTE or (error.errno == errno.ENOSPC and _has_blocks(place)):
            return f"its {len(value)} bytes cannot be stored ({error.strerror})"
        raise
    return ""


def _has_blocks(place: int | str) -> bool:
    target = place if isinstance(place, int) else posixpath.dirname(place)
    return os.statvfs(target).f_bavail > _SOME_BLOCKS
