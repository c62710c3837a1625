"""Resumable downloads: complete files are not fetched again, other existing files only if
requested.

The journal names the files that were written completely, with their stamps: a file that is
unchanged since is kept. Any other existing file raises Conflict before the first file is written,
or is replaced if `overwrite` is set.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lading.client.blocks import BlockClient
from lading.client.collections import Progress, download
from lading.client.listing import stamp_of
from lading.client.upload_journal import Journal
from lading.core.data import filetree
from lading.core.data.filetree import File, Tree
from lading.core.errors import Conflict


async def fetch(
    blocks: BlockClient,
    tree: Tree,
    target: Path,
    *,
    overwrite: bool = False,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a tree below `target`; return the number of files that an earlier call had completed.

    Raises Conflict naming a file that is in the way, and as `collections.download`.
    """
    known = journal or Journal()
    files = dict(filetree.files(tree))
    there = await asyncio.to_thread(_existing, target, files)
    done = {path for path, stamp in there.items() if _key(path, files[path], stamp) in known.blocks}
    foreign = sorted(there.keys() - done)
    if foreign and not overwrite:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise Conflict(f"{target / foreign[0]}{more}: is there already; --overwrite replaces it")

    def landed(paths: Iterable[str]) -> None:
        for path, stamp in _existing(target, paths).items():
            known.note_block(_key(path, files[path], stamp), "")

    rest = filetree.change(tree, dict.fromkeys(done)) if done else tree
    await download(blocks, rest, target, progress=progress, landed=landed)
    return len(done)


def _existing(target: Path, paths: Iterable[str]) -> dict[str, str]:
    """The existing files at these paths, with their stamps; links are not followed."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            found[path] = str(stamp_of((target / path).lstat()))
    return found


# Changes with the file on disk and with its wanted content; signatures are left out.
def _key(path: str, file: File, stamp: str) -> str:
    digest = hashlib.sha256(f"{path}\0{stamp}".encode())
    for locator, offset, length in file.segments:
        digest.update(f" {filetree.bare(locator)} {offset} {length}".encode())
    return digest.hexdigest()[:32]
