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


def set_attribute(file: int | str, name: str, value: bytes, *, follow_symlinks: bool) -> str:
    """Set an extended attribute; return why it cannot be set, or "". Raises OSError when the disk
    fails.
    """
    try:
        os.setxattr(file, name, value, follow_symlinks=follow_symlinks)
    except OSError as error:
        # ENOSPC: the attributes of a file have room in one block, whatever the disk has.
        if error.errno in _NO_ATTRIBUTE or (error.errno == errno.ENOSPC and _has_blocks(file)):
            return f"its {len(value)} bytes cannot be stored ({error.strerror})"
        raise
    return ""


def _has_blocks(file: int | str) -> bool:
    target = file if isinstance(file, int) else posixpath.dirname(file)
    return os.statvfs(target).f_bavail > _SOME_BLOCKS
