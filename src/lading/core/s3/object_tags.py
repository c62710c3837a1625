"""Entity tags of objects, from the blocks of a file.

The tag of a file in one whole block, or without data, is the MD5 of its content, as that of an
object that was put at once. The tag of a file in several whole blocks is the MD5 of their MD5s and
their number, as that of an object whose parts these blocks were. Another file has a tag of the same
form, which tells its segments from others. So files of equal blocks have equal tags.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lading.core.data import manifest
from lading.core.data.filetree import File, bare

EMPTY_TAG = "d41d8cd98f00b204e9800998ecf8427e"
"""The tag of an object without data."""
_DIGITS = 32


def tag_of(file: File) -> str:
    """The entity tag of a file, without quotes."""
    segments = file.segments
    if not segments:
        return EMPTY_TAG
    blocks = [bare(segment.locator) for segment in segments]
    is_whole = all(
        segment.offset == 0 and segment.length == manifest.size_of(block)
        for segment, block in zip(segments, blocks, strict=True)
    )
    if is_whole:
        hashes = [block[:_DIGITS] for block in blocks]
        return hashes[0] if len(hashes) == 1 else joined_tag(hashes)
    digest = hashlib.md5(usedforsecurity=False)
    for segment, block in zip(segments, blocks, strict=True):
        digest.update(f"{block} {segment.offset} {segment.length}\n".encode())
    return f"{digest.hexdigest()}-{len(segments)}"


def joined_tag(hashes: Iterable[str]) -> str:
    """The tag of an object of parts with these MD5s, in hexadecimal digits."""
    digest, count = hashlib.md5(usedforsecurity=False), 0
    for digits in hashes:
        digest.update(bytes.fromhex(digits))
        count += 1
    return f"{digest.hexdigest()}-{count}"
