"""Saves the output, by the plan of `core.containers.output`, and the log."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from msgspec import structs

from lading.client.files.collections import BlockSink, CollectionWriter
from lading.core.containers.mounting.mount_steps import HostPath, Source
from lading.core.containers.output.plan import (
    CopyFile,
    CopyFiles,
    DirectoryEntry,
    EmptyFile,
    Entry,
    Look,
    OutputPlan,
    Refer,
    unusable_patterns,
)
from lading.core.containers.output.walk import plan_output, too_large
from lading.core.data import filetree
from lading.core.data.globs import EVERYTHING, compile_globs
from lading.core.errors import ExecutionError, Failure, TooLarge
from lading.process.cancellation import Stop, Stopped, never
from lading.process.concurrency import in_thread
from lading.process.confined import ConfinedTree
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.logs import Log

# Bytes. A smaller file is read in the event loop, which is faster than starting a thread.
_SMALL = 1 << 17
# Bytes of a block of packed small files. Smaller than a block of 64 MiB, to bound the memory.
_PACK = 8 << 20
# Entries of an output that are examined in the event loop, and files sent with their manifest.
_FEW = 64
# Entries of an output that are read in a row, without a turn of others in the event loop.
_TURN = 16
# Bytes of results that are sent with their manifest in one call.
_LITTLE = 1 << 16
_Place = TypeVar("_Place")


class Files(Protocol):
    """Access to the files of a plan; implemented by `Stage`. Both raise OSError, also when the path
    has a symbolic link.
    """

    def open_folder(self, source: Source) -> ConfinedTree:
        """Open a directory."""

    def open_file(self, source: Source) -> int:
        """A descriptor of a regular file."""


class _Many(Exception):
    """The output has more entries than are examined in the event loop."""


class _Few:
    """Examines at most `_FEW` entries. `look` raises _Many when there are more."""

    def __init__(self, look: Callable[[Source, Stop], Entry | None]) -> None:
        self._look = look
        self._left = _FEW
        self._asked = 0

    def look(self, source: Source) -> Entry | None:
        """The entry at a place."""
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
        # The function is called at the first entry of a directory, and again after hundreds of
        # them.
        self._asked += 1
        return self._asked > 1


async def plan_capture(stage: Stage, output_glob: Iterable[str], *, limit: int = 0) -> OutputPlan:
    """Examine the output of the container and decide which files are kept, of at most `limit` bytes
    (0: no limit).

    Raises ExecutionError(USER).
    """
    patterns = [*output_glob]
    plan, globs = stage.plan, compile_globs(patterns) if patterns else EVERYTHING

    def work(look: Look, stop: Stop) -> OutputPlan:
        def ask() -> None:
            if stop():
                raise Stopped

        made = plan_output(
            plan.output_path, plan.areas, look=look, globs=globs, limit=limit, ask=ask
        )
        # Few requests name patterns.
        return structs.replace(made, unusable=unusable_patterns(patterns)) if patterns else made

    def look(source: Source, stop: Stop = never) -> Entry | None:
        entry = stage.look(source, stop=stop)
        if entry is None and source == HostPath(plan.output_directory):
            raise ExecutionError(
                f"output: {plan.output_path} does not exist, nothing of it can be saved",
                Failure.USER,
            )
        return entry

    # Most outputs are a few files, for which starting a thread would take longer than the
    # examination.
    with suppress(_Many):
        # Collections and keep mounts may be large or on FUSE, so they are always examined in a
        # thread.
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
    """Store the files of the plan, of at most `limit` bytes (0: no limit); return the manifest.

    Raises ExecutionError when a file vanished or cannot be read, or when there are more bytes.
    """
    async with CollectionWriter(blocks, pack=_PACK, most=limit) as writer:
        try:
            for number, item in enumerate(plan.items):
                if number % _TURN == _TURN - 1:
                    # Small entries are read in the event loop, which others use as well.
                    await asyncio.sleep(0)
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
                    case EmptyFile(name):
                        await writer.add_bytes(name, b"")
            return await writer.finish()
        except TooLarge:
            # TooLarge of a parcel is raised on: the caller then sends the blocks one by one.
            if 0 < limit < writer.size:
                raise too_large(output_path, writer.size, limit) from None
            raise


async def save_log(log: Log, *, blocks: BlockSink) -> str:
    """Store every file of a log; return the manifest."""
    # Lines that are in memory and not yet in the files.
    tails = log.tails()
    with ConfinedTree.open(log.directory) as directory:
        async with CollectionWriter(blocks, pack=_PACK) as writer:
            for name in sorted(entry.name for entry in directory.scan()):
                await _add_file(writer, name, directory.open_file, name, tail=tails.get(name, b""))
            return await writer.finish()


class Parcel:
    """Small blocks that are sent in one call with the manifests that name them (see `is_small`)."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []

    async def put(self, data: bytes | bytearray) -> str:
        """Add a block; return its locator without signature. Raises TooLarge."""
        # Twice: output and log share the parcel.
        if sum(map(len, self.blocks)) + len(data) > 2 * _LITTLE:
            raise TooLarge(f"a block of {len(data)} bytes is too large for a parcel")
        self.blocks.append(bytes(data))
        return f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}+{len(data)}"

    async def put_part(self, _descriptor: int, _start: int, length: int, /) -> str:
        """Raises TooLarge: parts of large files are not sent in a parcel."""
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
    """Sizes of the files that will be read."""
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
        shown = "/".join(element for element in (name, str(error.filename or "")) if element)
        raise _unreadable(shown, error) from error


async def _add_file(
    writer: CollectionWriter,
    name: str,
    open_file: Callable[[_Place], int],
    source: _Place,
    *,
    tail: bytes = b"",
) -> None:
    """Add a file, and append `tail` to a small one."""
    try:
        descriptor = open_file(source)
        try:
            # Reading it takes less time than starting a thread.
            if os.fstat(descriptor).st_size <= _SMALL:
                await writer.add_bytes(name, _read(descriptor) + tail)
            else:
                await writer.add_open_file(name, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> ExecutionError:
    """Another run may be read on another node; a mode that the command has set stays as it is."""
    failure = Failure.USER if isinstance(error, PermissionError) else Failure.NODE
    return ExecutionError(f"output: {name} cannot be read: {error.strerror}", failure)


def _read(descriptor: int) -> bytes:
    """All of a small file."""
    data = b""
    while piece := os.read(descriptor, _SMALL):
        data += piece
    return data
