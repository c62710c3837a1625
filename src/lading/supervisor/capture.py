"""Saving what a container left: its output, by the plan of `core.output`, and its log."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lading.client.collections import BlockSink, CollectionWriter
from lading.core import filetree
from lading.core.errors import ExecutionError, Failure, TooLarge
from lading.core.globs import compile_globs
from lading.core.mountplan import Source
from lading.core.output import CopyFile, CopyFiles, Mark, OutputPlan, Refer, plan_output
from lading.supervisor.logs import Log
from lading.supervisor.staging import Inputs, Stage

_SMALL = 1 << 17
_PACK = 8 << 20
_FEW = 64
_LITTLE = 1 << 16


async def plan_capture(stage: Stage, output_glob: Iterable[str], *, limit: int = 0) -> OutputPlan:
    """Look at what the container left and decide what is kept, of at most `limit` bytes (0: any number).

    Raises ExecutionError(USER).
    """
    plan, globs = stage.plan, compile_globs(output_glob)

    def work() -> OutputPlan:
        return plan_output(plan.output_path, plan.areas, look=stage.look, globs=globs, limit=limit)

    # Most outputs are a few files: going to a thread would take longer than looking.
    try:
        quick = len(_names(plan.output_directory)) < _FEW
    except FileNotFoundError as error:
        raise ExecutionError(f"output: {plan.output_path} is gone, nothing of it can be saved", Failure.USER) from error
    return work() if quick and not plan.collections else await asyncio.to_thread(work)


async def save_output(plan: OutputPlan, *, inputs: Inputs, blocks: BlockSink, find: Callable[[Source], str]) -> str:
    """Store the files of the plan, which `find` finds; the manifest.

    Raises ExecutionError when a file has gone or cannot be read.
    """
    async with CollectionWriter(blocks, pack=_PACK) as writer:
        for item in plan.items:
            match item:
                case CopyFile(name, source):
                    await _add_file(writer, name, find(source))
                case CopyFiles(name, folder, names):
                    await _add_folder(writer, name, folder.path, names)
                case Refer(name, source):
                    tree = await inputs.tree(source.pdh)
                    writer.add_tree(name, filetree.get(tree, source.path) if source.path else tree)
                case Mark(name):
                    await writer.add_bytes(name, b"")
        return await writer.finish()


async def save_log(log: Log, *, blocks: BlockSink) -> str:
    """Store every file of a log; the manifest."""
    directory, tails = log.directory, log.tails()
    async with CollectionWriter(blocks, pack=_PACK) as writer:
        for name in sorted(_names(str(directory))):
            path = str(directory / name)
            small = _read_small(path) if name in tails else None
            if small is not None:
                await writer.add_bytes(name, small + tails[name])
            else:
                await _add_file(writer, name, path)
        return await writer.finish()


class Parcel:
    """Blocks that are sent with the manifests that name them: those of results that are small (`is_small`)."""

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


def is_small(plan: OutputPlan, *, find: Callable[[Source], str]) -> bool:
    """Whether the files of an output fit into a parcel. Raises OSError when one has gone."""
    number = size = 0
    for path in _copied(plan, find):
        number, size = number + 1, size + Path(path).stat().st_size
        if number > _FEW or size > _LITTLE:
            return False
    return True


def _copied(plan: OutputPlan, find: Callable[[Source], str]) -> Iterator[str]:
    """The host paths of the files that are to be read."""
    for item in plan.items:
        if isinstance(item, CopyFile):
            yield find(item.source)
        elif isinstance(item, CopyFiles):
            yield from (f"{item.source.path}/{name}" for name in item.names)


async def _add_folder(writer: CollectionWriter, name: str, folder: str, names: Sequence[str]) -> None:
    try:
        await writer.add_folder(name, folder, names)
    except OSError as error:
        shown = "/".join(part for part in (name, str(error.filename or "")) if part)
        raise ExecutionError(f"output: {shown} cannot be read: {error.strerror}", Failure.NODE) from error


async def _add_file(writer: CollectionWriter, name: str, path: str) -> None:
    try:
        small = _read_small(path)
        if small is not None:
            await writer.add_bytes(name, small)
        else:
            await writer.add_file(name, Path(path))
    except OSError as error:
        raise ExecutionError(f"output: {name} cannot be read: {error.strerror}", Failure.NODE) from error


def _read_small(path: str) -> bytes | None:
    """The content of a file that is read sooner than a thread is started; None for a larger one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        data = os.read(descriptor, _SMALL + 1)
    finally:
        os.close(descriptor)
    return data if len(data) <= _SMALL else None


def _names(directory: str) -> list[str]:
    return [one.name for one in Path(directory).iterdir()]
