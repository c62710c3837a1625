"""Saving what a container left: its output, by the plan of `core.output`, and its log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from lading.client.blocks import BlockClient
from lading.client.collections import CollectionWriter
from lading.core import filetree
from lading.core.errors import ExecutionError, Failure
from lading.core.globs import compile_globs
from lading.core.output import CopyFile, Mark, OutputPlan, Refer, plan_output
from lading.supervisor.staging import Inputs, Stage

_SMALL = 1 << 17
_FEW = 64


async def plan_capture(stage: Stage, output_glob: Iterable[str]) -> OutputPlan:
    """Look at what the container left and decide what is kept. Raises ExecutionError(USER)."""
    plan, globs = stage.plan, compile_globs(output_glob)

    def work() -> OutputPlan:
        return plan_output(plan.output_path, plan.areas, look=stage.look, globs=globs)

    # Most outputs are a few files: going to a thread would take longer than looking.
    quick = len(_names(plan.output_directory)) < _FEW
    return work() if quick and not plan.collections else await asyncio.to_thread(work)


async def save_output(plan: OutputPlan, *, inputs: Inputs, blocks: BlockClient) -> str:
    """Store the files of the plan; the manifest. Raises ExecutionError when a file has gone or cannot be read."""
    async with CollectionWriter(blocks) as writer:
        for item in plan.items:
            match item:
                case CopyFile(name, path):
                    await _add_file(writer, name, Path(path))
                case Refer(name, source):
                    tree = await inputs.tree(source.pdh)
                    writer.add_tree(name, filetree.get(tree, source.path) if source.path else tree)
                case Mark(name):
                    await writer.add_bytes(name, b"")
        return await writer.finish()


async def save_files(directory: Path, *, blocks: BlockClient) -> str:
    """Store every file of a flat directory; the manifest."""
    async with CollectionWriter(blocks) as writer:
        for name in sorted(_names(str(directory))):
            await _add_file(writer, name, directory / name)
        return await writer.finish()


async def _add_file(writer: CollectionWriter, name: str, path: Path) -> None:
    try:
        small = _read_small(path)
        if small is not None:
            await writer.add_bytes(name, small)
        else:
            await writer.add_file(name, path)
    except OSError as error:
        raise ExecutionError(f"output: {name} cannot be read: {error.strerror}", Failure.NODE) from error


def _read_small(path: Path) -> bytes | None:
    """The content of a file that is read sooner than a thread is started; None for a larger one."""
    return path.read_bytes() if path.lstat().st_size <= _SMALL else None


def _names(directory: str) -> list[str]:
    return [one.name for one in Path(directory).iterdir()]
