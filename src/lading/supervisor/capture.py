"""Saving what a container left: its output, by the plan of `core.containers.output`, and its
log.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from lading.client.collections import BlockSink, CollectionWriter
from lading.confined import Stop, Stopped, Tree, never
from lading.core.containers.mount_plan import Host, Source
from lading.core.containers.output import (
    CopyFile,
    CopyFiles,
    DirectoryEntry,
    Entry,
    Look,
    Mark,
    OutputPlan,
    Refer,
    plan_output,
    too_large,
)
from lading.core.data import filetree
from lading.core.data.globs import compile_globs
from lading.core.errors import ExecutionError, Failure, TooLarge
from lading.supervisor.inputs.staging import Inputs, Stage
from lading.supervisor.logs import Log
from lading.threads import in_thread

_SMALL = 1 << 17
"""Bytes of a file that is read in the event loop."""
_PACK = 8 << 20
_FEW = 64
_LITTLE = 1 << 16
_Place = TypeVar("_Place")


class Files(Protocol):
    """Where the files of a plan are, as `Stage`. Both raise OSError, also where a link is on the
    way.
    """

    def open_folder(self, source: Source) -> Tree:
        """A directory."""

    def open_file(self, source: Source) -> int:
        """A descriptor of a regular file."""


class _Many(Exception):
    """There is more to look at than is looked at in the event loop."""


class _Few:
    """Looks at a few places, of few entries, only. `look` raises _Many when there are more."""

    def __init__(self, look: Callable[[Source, Stop], Entry | None]) -> None:
        self._look = look
        self._left = _FEW
        self._asked = 0

    def look(self, source: Source) -> Entry | None:
        """What is at a place."""
        self._asked = 0
        try:
            entry = self._look(source, self._is_enough)
        except Stopped:
            raise _Many from None
        self._left -= 1 + (len(entry.names) if isinstance(entry, DirectoryEntry) else 0)
        if self._left < 0:
            raise _Many
        return entry

    def _is_enough(self) -> bool:
        # It is asked at the first entry of a directory, and again when there are hundreds.
        self._asked += 1
        return self._asked > 1


async def plan_capture(stage: Stage, output_glob: Iterable[str], *, limit: int = 0) -> OutputPlan:
    """Look at what the container left and decide what is kept, of at most `limit` bytes (0: any
    number).

    Raises ExecutionError(USER).
    """
    plan, globs = stage.plan, compile_globs(output_glob)

    def work(look: Look, stop: Stop) -> OutputPlan:
        def ask() -> None:
            if stop():
                raise Stopped

        return plan_output(
            plan.output_path, plan.areas, look=look, globs=globs, limit=limit, ask=ask
        )

    def look(source: Source, stop: Stop = never) -> Entry | None:
        entry = stage.look(source, stop=stop)
        if entry is None and source == Host(plan.output_directory):
            raise ExecutionError(
                f"output: {plan.output_path} does not exist, nothing of it can be saved",
                Failure.USER,
            )
        return entry

    # Most outputs are a few files: going to a thread would take longer than looking.
    with suppress(_Many):
        if not plan.collections and not plan.keeps:
            return work(_Few(look).look, never)
    return await in_thread(lambda stop, _: work(functools.partial(look, stop=stop), stop))


async def save_output(
    plan: OutputPlan,
    *,
    inputs: Inputs,
    blocks: BlockSink,
    files: Files,
    output_path: str = "",
    limit: int = 0,
) -> str:
    """Store the files of the plan, of at most `limit` bytes (0: any number); the manifest.

    Raises ExecutionError when a file has gone or cannot be read, or where there are more bytes.
    """
    async with CollectionWriter(blocks, pack=_PACK, most=limit) as writer:
        try:
            for item in plan.items:
                match item:
                    case CopyFile(name, source):
                        await _add_file(writer, name, files.open_file, source)
                    case CopyFiles(name, folder, names):
                        await _add_folder(writer, name, files, folder, names)
                    case Refer(name, source):
                        tree = await inputs.tree(source.pdh)
                        writer.add_tree(
                            name, filetree.get(tree, source.path) if source.path else tree
                        )
                    case Mark(name):
                        await writer.add_bytes(name, b"")
            return await writer.finish()
        except TooLarge:
            if 0 < limit < writer.size:
                raise too_large(output_path, writer.size, limit) from None
            raise


async def save_log(log: Log, *, blocks: BlockSink) -> str:
    """Store every file of a log; the manifest."""
    tails = log.tails()
    with Tree.open(log.directory) as directory:
        async with CollectionWriter(blocks, pack=_PACK) as writer:
            for name in sorted(one.name for one in directory.scan()):
                await _add_file(writer, name, directory.open_file, name, tail=tails.get(name, b""))
            return await writer.finish()


class Parcel:
    """Blocks that are sent with the manifests that name them: those of results that are small
    (`is_small`).
    """

    def __init__(self) -> None:
        self.blocks: list[bytes] = []

    async def put(self, data: bytes | bytearray) -> str:
        """Add a block; its locator without signature. Raises TooLarge."""
        if sum(map(len, self.blocks)) + len(data) > 2 * _LITTLE:
            raise TooLarge(f"a block of {len(data)} bytes is too large for a parcel")
        self.blocks.append(bytes(data))
        return f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}+{len(data)}"

    async def put_part(self, _descriptor: int, _start: int, length: int, /) -> str:
        """No part of a large file belongs here. Raises TooLarge."""
        raise TooLarge(f"a part of {length} bytes is too large for a parcel")


def is_small(plan: OutputPlan, *, files: Files) -> bool:
    """Whether the files of an output fit into a parcel. Raises OSError when one has gone."""
    number = size = 0
    for each in _sizes(plan, files):
        number, size = number + 1, size + each
        if number > _FEW or size > _LITTLE:
            return False
    return True


def _sizes(plan: OutputPlan, files: Files) -> Iterator[int]:
    """The sizes of the files that are to be read."""
    for item in plan.items:
        if isinstance(item, CopyFile):
            descriptor = files.open_file(item.source)
            try:
                yield os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
        elif isinstance(item, CopyFiles):
            with files.open_folder(item.source) as folder:
                for name in item.names:
                    yield os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False).st_size


async def _add_folder(
    writer: CollectionWriter, name: str, files: Files, folder: Source, names: Sequence[str]
) -> None:
    try:
        with files.open_folder(folder) as tree:
            await writer.add_folder(name, tree.descriptor, names)
    except OSError as error:
        shown = "/".join(part for part in (name, str(error.filename or "")) if part)
        raise ExecutionError(
            f"output: {shown} cannot be read: {error.strerror}", Failure.NODE
        ) from error


async def _add_file(
    writer: CollectionWriter,
    name: str,
    open_file: Callable[[_Place], int],
    place: _Place,
    *,
    tail: bytes = b"",
) -> None:
    """Add a file, and to a small one these bytes."""
    try:
        descriptor = open_file(place)
        try:
            # It is read sooner than a thread is started.
            if os.fstat(descriptor).st_size <= _SMALL:
                await writer.add_bytes(name, _read(descriptor) + tail)
            else:
                await writer.add_open_file(name, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ExecutionError(
            f"output: {name} cannot be read: {error.strerror}", Failure.NODE
        ) from error


def _read(descriptor: int) -> bytes:
    """All of a small file."""
    data = b""
    while piece := os.read(descriptor, _SMALL):
        data += piece
    return data
