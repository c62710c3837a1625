"""Replays: the same container again, and whether its output is the same, byte by byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from lading.client.api import Record
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_files
from lading.client.request_states import repeated, shown_container
from lading.core.data import tree_changes
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Invalid

_RESOLVED: Final = ("command", "container_image", "cwd", "environment", "mounts", "output_path")
"""Attributes of the recipe that a container records; names of images and collections are hashes
there.
"""
_PORTABLE: Final = ("runtime_constraints", "output_glob", "steps")
"""Attributes of a request recorded by another server that mean the same here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first path, in the order of names, at which two outputs differ.

    `offset`: the first byte that differs, from 0; None when one of them has no such file. Sizes are
    in bytes, None where there is no file.
    """

    path: str
    offset: int | None
    before: int | None
    after: int | None

    def __str__(self) -> str:
        if self.offset is None:
            return f"{self.path} is {'missing' if self.after is None else 'new'}"
        return f"{self.path} differs at byte {self.offset}"


def replay_request(request: Record, container: Record, *, is_foreign: bool = False) -> Record:
    """The attributes of a request that runs a container again: its recorded recipe, never the
    result of an earlier one. Raises Invalid for a container that has no result.

    `is_foreign`: another server has recorded it; the names of its users, storage and queues are
    left out.
    """
    if container["state"] != "Complete" or not container["output"]:
        raise Invalid(
            f"{request['uuid']}: has no result to compare with; its container is "
            f"{shown_container(container)}"
        )
    recorded = {name: container[name] for name in _RESOLVED}
    attributes = repeated(request, {})
    # These would tie the replay to requests of the first run.
    for name in ("depends_on", "parallel_group", "max_parallel", "output_name"):
        attributes.pop(name, None)
    if is_foreign:
        attributes = {name: attributes[name] for name in _PORTABLE if name in attributes}
    return {
        **attributes,
        **recorded,
        "name": f"{request['name'] or request['uuid']} (replay)",
        "use_existing": False,
        "state": "Committed",
        "priority": request["priority"] or 500,
    }


async def first_difference(
    blocks: BlockClient, before: FileTree, after: FileTree
) -> FirstDifference | None:
    """The first difference of two outputs; None for equal bytes under equal names. Files are read a
    piece at a time. Raises as `BlockClient.get`.
    """
    for change in tree_changes.diff(before, after):
        old, new = change.before, change.after
        sizes = [node.size if isinstance(node, File) else None for node in (old, new)]
        offset = None
        if isinstance(old, File) and isinstance(new, File):
            offset = await _first_byte(blocks, old, new)
            if offset is None:
                # Equal bytes in other blocks.
                continue
        return FirstDifference(path=change.path, offset=offset, before=sizes[0], after=sizes[1])
    return None


async def _first_byte(blocks: BlockClient, before: File, after: File) -> int | None:
    """The offset of the first byte that differs; the end of the shorter file if it is a beginning
    of the longer one.
    """
    offset = 0
    async with (
        aclosing(read_files(blocks, [before])) as old,
        aclosing(read_files(blocks, [after])) as new,
    ):
        ours, theirs = b"", b""
        while True:
            ours, theirs = ours or await _next(old), theirs or await _next(new)
            shared = min(len(ours), len(theirs))
            if ours[:shared] != theirs[:shared]:
                pairs = zip(ours, theirs, strict=False)
                return offset + next(
                    at for at, (our_byte, their_byte) in enumerate(pairs) if our_byte != their_byte
                )
            if not shared:
                return offset if ours or theirs else None
            offset += shared
            ours, theirs = ours[shared:], theirs[shared:]


async def _next(pieces: AsyncIterator[tuple[int, bytes]]) -> bytes:
    """The next piece that has bytes; b"" at the end."""
    async for _, piece in pieces:
        if piece:
            return piece
    return b""
