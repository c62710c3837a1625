"""Content of a file or directory of a collection, independent of its name and of the files beside
it.

Blocks of a collection may hold several files, so equal files can be stored in different blocks. A
file of at most one full block is named by the block that it would be alone; where it is stored
otherwise, its bytes have to be read (`needs_bytes`). A larger file is named by its blocks, which
are equal when it was stored alone in full blocks.

Source: docs/spec/containers, section Reuse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from lading.core.data import filetree, manifest
from lading.core.data.filetree import File, FileTree, Segment, bare
from lading.core.data.locator import MAX_BLOCK
from lading.core.data.manifest import size_of
from lading.core.values import JsonObject

MAX_SEGMENTS = 64
"""Most segments of a file that is read to name its content."""


def needs_bytes(file: File) -> bool:
    """Whether the bytes of the file must be read to name its content: it fits one block, but is
    stored as part of one, or in several.
    """
    segments = file.segments
    if not 1 <= len(segments) <= MAX_SEGMENTS or file.size > MAX_BLOCK:
        return False
    return len(segments) > 1 or not _is_whole(segments[0])


def of_directory(tree: FileTree) -> JsonObject:
    """The content of a directory for `mount_resolution.seen`: the hash of its own manifest."""
    text = filetree.to_manifest(tree)
    return {"portable_data_hash": manifest.portable_data_hash(text)}


def of_file(file: File) -> JsonObject:
    """The content of a file for `mount_resolution.seen`, from its segments."""
    return _content((_piece(segment) for segment in file.segments), file.size)


def of_bytes(data: bytes | memoryview) -> JsonObject:
    """The content of a file with these bytes, at most a full block: that of `of_file` if they were
    stored alone.
    """
    name = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return _content(iter((f"{name}+{len(data)}",)), len(data))


def in_block(tree: FileTree, block: str, data: bytes) -> dict[str, JsonObject]:
    """The contents of all files that are part of this block alone, by path; `data` is the block."""
    view = memoryview(data)
    return {
        path: of_bytes(view[segment.offset : segment.offset + segment.length])
        for path, file in filetree.files(tree)
        if len(file.segments) == 1
        and needs_bytes(file)
        and bare((segment := file.segments[0]).locator) == block
    }


def _is_whole(segment: Segment) -> bool:
    return segment.offset == 0 and segment.length == size_of(bare(segment.locator))


def _piece(segment: Segment) -> str:
    name = bare(segment.locator)
    return name if _is_whole(segment) else f"{name}@{segment.offset}+{segment.length}"


def _content(pieces: Iterator[str], size: int) -> JsonObject:
    return {"content": f"{hashlib.sha256(' '.join(pieces).encode()).hexdigest()}+{size}"}
