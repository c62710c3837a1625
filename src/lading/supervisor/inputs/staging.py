"""Carries out a mount plan: makes directories and files, provides collections, opens streams.

Collections come from the cache of this machine, read-only and shared; a lease keeps them there
until `close`. Large collections that are not cached are mounted and read on demand (`keep_mount`).
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from lading.core.containers.mounting.mount_plan import MountPlan
from lading.core.containers.mounting.mount_steps import (
    BLOB,
    CollectionPath,
    CopyCollection,
    GitTree,
    HostPath,
    ImagePath,
    KeepTree,
    LivePath,
    MakeDirectory,
    Source,
    Step,
    WriteFile,
)
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.process import cancellation, confined
from lading.process.concurrency import in_thread, together
from lading.supervisor.engines import Bind, Engine, root_directory
from lading.supervisor.inputs import free_directories
from lading.supervisor.inputs.keep_mount import KeepMount, provided
from lading.supervisor.inputs.live_directories import LiveDirectories
from lading.supervisor.supervisor_config import LiveRoot

# Many containers mount neither collections nor git trees, and a start waits for each import: what
# these need is imported when there is one.
if TYPE_CHECKING:
    from lading.core.containers.output.plan import Entry
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.mounted_files import (
    check_mount_points,
    copy_open,
    make_directory,
    make_open,
    plain_path,
    write_file,
)

# Collections that are asked for, or laid out, at a time. Each waits for the server, its cache and
# the disk by turns.
_AT_A_TIME = 8
# Bytes. The blocks of larger collections are already fetched several at a time.
_SMALL_COLLECTION = 16 << 20


class Stage:
    """The carried-out mount plan of one container."""

    def __init__(
        self,
        plan: MountPlan,
        live_roots: Mapping[str, LiveRoot] = MappingProxyType({}),
        *,
        engine: Engine | None = None,
    ) -> None:
        """`engine` gives access to the files of the image, if it can."""
        self.plan = plan
        self._engine = engine
        self._live_roots = live_roots
        self.binds: tuple[Bind, ...] = ()
        self.stdin = -1
        self.stdout = -1
        self.stderr = -1
        self._leases = AsyncExitStack()
        self._trees: dict[str, Path] = {}
        self._in_memory: dict[str, int] = {}
        self._keep: KeepMount | None = None

    @cached_property
    def _live(self) -> LiveDirectories:
        # Made only for a container that has live mounts.
        return LiveDirectories(self._live_roots)

    async def set(self, inputs: Inputs, *, memory: bool, keep: KeepMount | None = None) -> None:
        """Make everything. `memory`: file systems in memory are made here, otherwise by the engine;
        `keep`: the mount of the container.

        Raises ExecutionError naming the missing input, or the path that cannot be made.
        """
        self._keep = keep
        if not memory:
            made = (
                step
                for step in self.plan.steps
                if isinstance(step, MakeDirectory) and step.in_memory
            )
            self._in_memory = {step.path: step.capacity for step in made}
        cached = frozenset([pdh for pdh in self.plan.collections if inputs.cache.holds(pdh)])
        # Collections first: later steps copy from them.
        mounted = await self._mount(inputs)
        await self._lease(inputs, mounted)
        if keep is not None:
            keep.note(provided(self.plan, mounted, cached))
        try:
            for step in self.plan.steps:
                await self._carry_out(step, memory=memory)
            if keep is not None and keep.is_open:
                # Looking up paths in a FUSE mount may wait for the network.
                await asyncio.to_thread(self._bind)
            else:
                self._bind()
        except OSError as error:
            failure = Failure.DISK if error.errno in (errno.ENOSPC, errno.EDQUOT) else Failure.USER
            raise ExecutionError(f"a mount cannot be made: {error}", failure) from error

    async def reopen(self, inputs: Inputs) -> None:
        """Give access to everything that an earlier process has made by `set`. Collections must be
        laid out on disk.
        """
        await self._lease(inputs, frozenset())

    async def _carry_out(self, step: Step, *, memory: bool) -> None:
        match step:
            case MakeDirectory():
                make_directory(step, memory=memory)
            case WriteFile():
                write_file(step)
            case CopyCollection(source, path):
                await self._copy(source, Path(path))

    @property
    def _root(self) -> Path | None:
        """The container's root file system, where it can be read."""
        return root_directory(self._engine) if self._engine is not None else None

    @property
    def is_in_memory(self) -> bool:
        """Whether a mount is on a file system in memory."""
        return any(isinstance(step, MakeDirectory) and step.in_memory for step in self.plan.steps)

    def find(self, source: Source) -> Path:
        """Host path of a file or directory. Raises ExecutionError(INPUT) when it is missing,
        USER when it is
        reached through a symbolic link.
        """
        top, below = self._place(source)
        path = top / below
        if not path.exists():
            raise ExecutionError(_missing(source), Failure.INPUT)
        # Collections are read-only and contain no links; other mounts may be changed by the
        # container.
        if not isinstance(source, CollectionPath) and plain_path(top, below) is None:
            raise ExecutionError(
                f"{_named(source)} has a link at or above {source.path!r}", Failure.USER
            )
        return path

    def look(self, source: Source, *, stop: cancellation.Stop = cancellation.never) -> Entry | None:
        """The entry at a place, without following links (`core.containers.output`). Raises OSError,
        Stopped.
        """
        # Imported with the modules that save the output, after the start of the command.
        from lading.supervisor.inputs.container_files import find_entry

        if isinstance(source, ImagePath) and self._root is None:
            return None
        top, path = self._place(source)
        # Files of a collection are saved by reference, so their sizes are not needed.
        return find_entry(top, path, measured=not isinstance(source, CollectionPath), stop=stop)

    def open_folder(self, source: Source) -> confined.ConfinedTree:
        """Open the directory at a place. Raises OSError, also when the path has a symbolic link."""
        top, path = self._place(source)
        with confined.ConfinedTree.open(top) as tree:
            return tree.open_tree(path)

    def open_file(self, source: Source) -> int:
        """A descriptor of the regular file at a place. Raises OSError, also when the path has a
        symbolic link.
        """
        top, path = self._place(source)
        with confined.ConfinedTree.open(top) as tree:
            return tree.open_file(path)

    def close_streams(self) -> None:
        """Close this process's copies of the streams, once the container has its own. Otherwise the
        end of the command would not end a pipe.
        """
        for name in ("stdin", "stdout", "stderr"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    async def close(self) -> None:
        """Release the collections. The made files stay until the run directory is removed."""
        self.close_streams()
        if "_live" in self.__dict__:
            self._live.close()
        await self._leases.aclose()

    async def _mount(self, inputs: Inputs) -> frozenset[str]:
        """Mount the large collections, or all; the mounted collections."""
        absent = [pdh for pdh in self.plan.collections if not inputs.cache.holds(pdh)]
        if absent:
            await inputs.read_trees(absent)
            await _some_at_a_time(absent, inputs.tree)
        large = frozenset([pdh for pdh in self.plan.collections if await inputs.is_large(pdh)])
        if self._keep is None or not (large or self.plan.keeps):
            return frozenset()
        try:
            await self._keep.open(shows_all=self.plan.keeps)
        except Unavailable as error:
            if self.plan.keeps:
                raise ExecutionError(
                    f"a keep mount cannot be made here: {error.message}", Failure.NODE
                ) from error
            # Without a keep mount in the request the large inputs can still be downloaded.
            self._keep.say(
                f"large inputs are laid out on disk, as they cannot be mounted: {error.message}"
            )
            return frozenset()
        return large

    async def _copy(self, source: Source, target: Path) -> None:
        """Copy a file or directory of a collection; the copy is writable by everybody."""
        found = self.find(source)
        await in_thread(lambda stop, _: copy_open(found, target, stop), is_waited_for=True)

    def _bind(self) -> None:
        binds = [
            self._live.bind(bind, bind.source)
            if isinstance(bind.source, LivePath)
            else Bind(
                str(self.find(bind.source)),
                bind.target,
                bind.readonly,
                self._memory_of(bind.source),
            )
            for bind in self.plan.binds
        ]
        # On paths of this process, before they are translated for the engine.
        check_mount_points(binds)
        if self._keep is not None:
            binds = [
                structs.replace(bind, source=str(self._keep.shown(Path(bind.source))))
                for bind in binds
            ]
        self.binds = tuple(binds)
        self._open_streams()

    @property
    def has_optional(self) -> bool:
        """Whether a mount depends on the files of the image."""
        return any(bind.unless_occupied for bind in self.plan.binds)

    def settle(self, is_occupied: Callable[[str], bool]) -> None:
        """Leave out the mounts whose place the image occupies, and mount what lies in them by
        itself. Raises OSError.
        """
        optional = frozenset(bind.target for bind in self.plan.binds if bind.unless_occupied)
        self.binds = free_directories.settle(self.binds, optional, is_occupied)

    def _memory_of(self, source: Source) -> int | None:
        """Capacity of a file system in memory that the engine has to make; None for other
        sources.
        """
        return self._in_memory.get(source.path) if isinstance(source, HostPath) else None

    async def _lease(self, inputs: Inputs, mounted: frozenset[str]) -> None:
        """Take all that is not mounted from the cache. Small collections are filled several at a
        time; each of the others fills the network by itself.
        """

        async def lease(key: str, filling: Callable[[Path], Awaitable[None]]) -> None:
            leased = inputs.cache.lease(key, filling)
            self._trees[key] = await self._leases.enter_async_context(leased)

        async def lease_collection(pdh: str) -> None:
            await lease(pdh, functools.partial(inputs.fill, pdh))

        needed = [pdh for pdh in self.plan.collections if pdh not in mounted]
        small = [
            pdh
            for pdh in needed
            if inputs.cache.holds(pdh) or await inputs.size(pdh) <= _SMALL_COLLECTION
        ]
        await _some_at_a_time(small, lease_collection)
        for pdh in needed:
            if pdh not in self._trees:
                await lease_collection(pdh)
        for tree in self.plan.git_trees:
            await lease(tree.key, functools.partial(inputs.fetch_git_tree, tree))

    def _place(self, source: Source) -> tuple[Path, str]:
        """A directory that no container can change, and the path of a place below it."""
        match source:
            case HostPath(path):
                scratch = f"{self.plan.scratch}/"
                if not path.startswith(scratch):
                    raise ExecutionError(
                        f"{path} is not among the directories made for this container"
                    )
                return Path(scratch), path[len(scratch) :]
            case CollectionPath(pdh, path) if pdh in self._trees:
                return self._trees[pdh], path
            case CollectionPath() | KeepTree():
                if self._keep is None:
                    raise ExecutionError(f"{_named(source)} is not mounted")
                return self._keep.place(structs.replace(source, path="")), source.path
            case LivePath(root, path):
                return self._live.directory(root), path
            case ImagePath(path):
                if self._root is None:
                    raise ExecutionError("the files of the image cannot be read here")
                return self._root, path
            case GitTree(kind=kind, path=path):
                return self._trees[source.key], BLOB if kind == BLOB else path

    def _open_output(self, path: str) -> int:
        """A descriptor for writing a stream's file. Raises OSError, also when a link is in its
        place.
        """
        # O_NOFOLLOW: a link left by an earlier run could lead to a file of the host.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        make_open(Path(path).parent)
        top, below = self._place(HostPath(path))
        with confined.ConfinedTree.open(top) as tree, tree.parent(below) as (folder, name):
            return os.open(name, flags, 0o666, dir_fd=folder)

    def _open_input(self, source: Source) -> int:
        """A descriptor for reading standard input. Raises ExecutionError(INPUT) when it is missing
        or no regular file.
        """
        try:
            return self.open_file(source)
        except FileNotFoundError as error:
            raise ExecutionError(f"mounts[stdin]: {_missing(source)}", Failure.INPUT) from error
        except OSError as error:
            raise ExecutionError(
                f"mounts[stdin]: {_named(source)}: not a regular file", Failure.INPUT
            ) from error

    def _open_streams(self) -> None:
        plan = self.plan
        if plan.stdin is not None:
            self.stdin = self._open_input(plan.stdin)
        if plan.stdout is not None:
            self.stdout = self._open_output(plan.stdout)
        if plan.stderr is not None and plan.stderr == plan.stdout:
            # One offset for both, as `2>&1`: each would overwrite the other.
            self.stderr = os.dup(self.stdout)
        elif plan.stderr is not None:
            self.stderr = self._open_output(plan.stderr)


async def _some_at_a_time(pdhs: Sequence[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Do the work for each collection. Raises the first error, after the others were cancelled."""
    left = iter(pdhs)

    async def take_turns() -> None:
        for pdh in left:
            await work(pdh)

    await together(*(take_turns() for _ in range(min(_AT_A_TIME, len(pdhs)))))


def _missing(source: Source) -> str:
    if isinstance(source, HostPath):
        return "a file mount names something that is not there when the command begins"
    return f"{_named(source)} has no {source.path!r}"


def _named(source: Source) -> str:
    if isinstance(source, LivePath):
        return f"the live directory {source.root}"
    if isinstance(source, KeepTree):
        return "the tree of all collections"
    if isinstance(source, ImagePath):
        return "the image"
    if isinstance(source, HostPath):
        return "a file of another mount"
    return (
        f"collection {source.pdh}"
        if isinstance(source, CollectionPath)
        else f"git {source.kind} {source.hash}"
    )
