"""Carrying out a mount plan: directories and files are made, collections laid out, streams opened.

Collections come from the cache of this machine, read-only and shared; a lease keeps them there until `close`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.collections import download
from lading.client.trees import TreeCache
from lading.core.errors import ExecutionError, Failure, RequestError
from lading.core.filetree import Tree, from_manifest
from lading.core.mountplan import CopyCollection, Host, MakeDirectory, MountPlan, Source, WriteFile
from lading.core.output import DirectoryEntry, Entry, FileEntry, LinkEntry, SpecialEntry
from lading.supervisor import linux
from lading.supervisor.engines import Bind

_OPEN_DIRECTORY = 0o2777


@dataclass(slots=True)
class Inputs:
    """Where collections come from: their files from the cache, their manifests from the API, each once."""

    api: ApiClient
    blocks: BlockClient
    cache: TreeCache
    _trees: dict[str, Tree] = field(default_factory=dict)

    async def tree(self, pdh: str) -> Tree:
        """The files of a collection by reference. Raises ExecutionError(USER) when it cannot be read."""
        if pdh not in self._trees:
            try:
                record = await self.api.get("collections", pdh, select=("uuid", "manifest_text"))
            except RequestError as error:
                raise ExecutionError(f"collection {pdh}: {error.message}", Failure.USER) from error
            self._trees[pdh] = from_manifest(record["manifest_text"])
        return self._trees[pdh]

    async def fill(self, pdh: str, directory: Path) -> None:
        """Lay the collection out below `directory`."""
        await download(self.blocks, await self.tree(pdh), directory)


class Stage:
    """The carried-out mount plan of one container."""

    def __init__(self, plan: MountPlan) -> None:
        self.plan = plan
        self.binds: tuple[Bind, ...] = ()
        self.stdin = -1
        self.stdout = -1
        self.stderr = -1
        self._leases = AsyncExitStack()
        self._trees: dict[str, Path] = {}

    async def set(self, inputs: Inputs, *, memory: bool) -> None:
        """Make everything. `memory`: file systems in memory can be given to the container.

        Raises ExecutionError naming what is missing or cannot be made.
        """
        await self._lease(inputs)
        try:
            for step in self.plan.steps:
                match step:
                    case MakeDirectory():
                        _make_directory(step, memory=memory)
                    case WriteFile():
                        _write_file(step)
                    case CopyCollection(source, path):
                        await asyncio.to_thread(_copy, self.find(source), Path(path))
            self.binds = tuple(
                Bind(str(self.find(bind.source)), bind.target, bind.readonly) for bind in self.plan.binds
            )
            self._open_streams()
        except OSError as error:
            failure = Failure.DISK if error.errno in (errno.ENOSPC, errno.EDQUOT) else Failure.USER
            raise ExecutionError(f"a mount cannot be made: {error}", failure) from error

    def find(self, source: Source) -> Path:
        """The host path of a file or directory. Raises ExecutionError(USER) when a collection does not have it."""
        if isinstance(source, Host):
            return Path(source.path)
        path = self._trees[source.pdh] / source.path
        if not path.exists():
            raise ExecutionError(f"collection {source.pdh} has no {source.path!r}", Failure.USER)
        return path

    def look(self, source: Source) -> Entry | None:
        """What is at a place, links not followed (`core.output`)."""
        path = Path(source.path) if isinstance(source, Host) else self._trees[source.pdh] / source.path
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(mode):
            return DirectoryEntry(tuple(one.name for one in path.iterdir()))
        if stat.S_ISLNK(mode):
            return LinkEntry(str(path.readlink()))
        return FileEntry() if stat.S_ISREG(mode) else SpecialEntry()

    def close_streams(self) -> None:
        """Close this process's copies of the streams, once the container has its own."""
        for name in ("stdin", "stdout", "stderr"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    async def close(self) -> None:
        """Let the collections go. The made files stay until the run directory is removed."""
        self.close_streams()
        await self._leases.aclose()

    async def _lease(self, inputs: Inputs) -> None:
        for pdh in self.plan.collections:

            async def fill(directory: Path, pdh: str = pdh) -> None:
                await inputs.fill(pdh, directory)

            self._trees[pdh] = await self._leases.enter_async_context(inputs.cache.lease(pdh, fill))

    def _open_streams(self) -> None:
        plan = self.plan
        if plan.stdin is not None:
            self.stdin = os.open(self.find(plan.stdin), os.O_RDONLY | os.O_CLOEXEC)
        if plan.stdout is not None:
            self.stdout = _open_output(Path(plan.stdout))
        if plan.stderr is not None:
            self.stderr = _open_output(Path(plan.stderr))


def _make_directory(step: MakeDirectory, *, memory: bool) -> None:
    _make_open(Path(step.path))
    if step.in_memory and memory:
        size = f",size={step.capacity}" if step.capacity else ""
        linux.mount("tmpfs", step.path, "tmpfs", f"mode=2777{size}")


def _make_open(path: Path) -> None:
    """Make a directory, and those above it, writable for everybody: the command may run as any user."""
    if path.is_dir():
        return
    _make_open(path.parent)
    path.mkdir()
    path.chmod(_OPEN_DIRECTORY)


def _write_file(step: WriteFile) -> None:
    path = Path(step.path)
    _make_open(path.parent)
    path.write_bytes(step.content)
    path.chmod(0o777 if step.writable else 0o444)


def _copy(source: Path, target: Path) -> None:
    """Copy a file, or a directory with all that is in it, writable for everybody."""
    _make_open(target.parent)
    if source.is_file():
        shutil.copyfile(source, target)
        target.chmod(0o777)
        return
    _make_open(target)
    for one in sorted(source.iterdir()):
        _copy(one, target / one.name)


def _open_output(path: Path) -> int:
    _make_open(path.parent)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
