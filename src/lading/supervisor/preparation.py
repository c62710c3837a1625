"""Prepares a container, or one rank of a gang, on this machine: inputs, image, disk and GPUs.

The supervisor prepares the first machine of a gang, and each further machine prepares its own rank
(`supervisor.gang.remote_rank`): with the same checks, limits and locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lading.client.caches.disk_space import lacks_room
from lading.client.caches.tree_cache import TreeCache
from lading.core.containers.container import Container
from lading.core.containers.disk_space import (
    Amount,
    DiskAllowance,
    allowance_of,
    disk_factor,
    overfull_sentences,
    own_capacities,
    spent,
)
from lading.core.containers.mounting import mount_plan
from lading.core.containers.mounting.mount_plan import MountPlan
from lading.core.containers.mounting.mount_steps import HostPath
from lading.core.containers.mounting.mounts import slower
from lading.supervisor.engines import Engine, is_occupied
from lading.supervisor.inputs.collection_image import CollectionImage
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.full_mounts import full_places
from lading.supervisor.inputs.keep_mount import KeepMount
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.limits.counters import descendants
from lading.supervisor.limits.gpu_locks import GpuLocks
from lading.supervisor.limits.project_quota import Project, begin_project
from lading.supervisor.logs import KEEP_MOUNT, Log
from lading.supervisor.machine import device_type
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

# A start of a supervisor waits for each import: this one is needed after the start of the command.
if TYPE_CHECKING:
    from lading.supervisor.limits.disk_limits import DiskWatch
    from lading.supervisor.limits.mount_use import MountUse

SCRATCH: Final = "mounts"
"""Directory in the run directory with all that the command can write."""
_NOTHING_TO_MOUNT: Final = b"nothing to mount: the container has no collections as inputs\n"


class Preparation:
    """Inputs, image, disk and GPUs of a container on one machine."""

    def __init__(self, config: SupervisorConfig, session: SupervisorSession, log: Log) -> None:
        self.gpu_locks = GpuLocks(config)
        self.inputs: Inputs | None = None
        self.stage: Stage | None = None
        self.keep: KeepMount | None = None
        self._config, self._session, self._log = config, session, log
        self._directory = Path(config.run_directory)
        self._base = Amount()
        self._project: Project | None = None
        self._quota = Amount()
        self._plan: MountPlan | None = None
        self._mount_use: MountUse | None = None

    @property
    def reserve(self) -> Amount:
        """The space that must stay free on the disk."""
        return reserve_of(self._config)

    @property
    def has_capacities(self) -> bool:
        """Whether a mount has a capacity of its own."""
        mounts = self._session.container.mounts.values()
        return any(isinstance(mount, Mapping) and mount.get("capacity") for mount in mounts)

    def lacks_room(self) -> str:
        """Why the container cannot begin on this disk, as a sentence; "" if it can. Raises
        OSError.
        """
        return lacks_room(self._directory, self.reserve)

    def begin(self) -> None:
        """Give the files of the container a project, where the file system has projects: a project
        applies to files that are made afterwards.
        """
        self._project = begin_project(self._directory, {SCRATCH: 0o2777, "bundle": 0o755})

    def plan(self, secrets: Mapping[str, Any]) -> MountPlan:
        """The plan of its mounts; `secrets` are the secret ones."""
        container = self._session.container
        return mount_plan.plan(
            container.mounts,
            secret_mounts=secrets,
            output_path=container.output_path,
            scratch=str(self._directory / SCRATCH),
        )

    def open(
        self, plan: MountPlan, engine: Engine, *, is_made: bool = False
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        """The work that is left: to make the mounts, unless an earlier process has made them, and
        to prepare the image.
        """
        session, config, private = self._session, self._config, engine.sees_private_mounts
        container = session.container
        cache = TreeCache(Path(config.cache_directory) / "trees", config.cache_size)
        self.inputs = Inputs(
            session.data,
            session.blocks,
            cache,
            session.fetch_git_tree,
            config.large_input,
            self.reserve,
        )
        if plan.collections or plan.keeps:
            self.keep = KeepMount(config, self._log, token=session.token, private=private)
        elif not is_made:
            # Clients of Arvados ask for the log of the mount also where nothing is mounted.
            self._log.stream(KEEP_MOUNT).write(_NOTHING_TO_MOUNT)
        self.stage = Stage(plan, config.live_roots, engine=engine)
        self._plan = plan
        image = CollectionImage(session.data, session.blocks, container.container_image)
        if is_made:
            return self.stage.reopen(self.inputs), engine.prepare(image)
        self._log.say(
            f"image {container.container_image}; {len(plan.collections)} input collections"
        )
        scratch = functools.partial(device_type, self._directory)
        for note in slower(container.mounts, scratch, output_path=container.output_path):
            self._log.say(note)
        return (
            self.stage.set(self.inputs, memory=private, keep=self.keep),
            engine.prepare(image),
        )

    async def settle(self, engine: Engine) -> None:
        """Leave out the mounts whose place the image of the prepared engine occupies. Raises
        OSError.
        """
        if self.stage is not None and self.stage.has_optional:
            await asyncio.to_thread(self.stage.settle, functools.partial(is_occupied, engine))

    def note_copies(self) -> None:
        """Note what the disk holds before the container begins: copies of collections are not
        charged to it. Raises OSError.
        """
        from lading.supervisor.limits.disk_limits import base

        self._base = base(self._directory)
        if (mount_use := self._find_mount_use()) is not None:
            mount_use.exclude_copies()

    @property
    def base(self) -> Amount:
        """The use of the disk before the container began."""
        return self._base

    def continue_from(self, base: Amount) -> None:
        """Go on with a container that an earlier process has prepared, which noted this `base`."""
        self._base = base

    def allowance(self, ranks: int) -> DiskAllowance:
        """The disk that so many ranks of the container may fill here."""
        return allowance_of(self._session.container, self._config.scratch_limits, ranks=ranks)

    def limit_disk(self, allowed: DiskAllowance) -> None:
        """Set the quota of the container in the kernel, where the file system supports it."""
        if self._project is not None and allowed != DiskAllowance():
            used = self._project.used()
            # Inputs and copies are in the same project, so they add to the allowance.
            size = allowed.size and used.size + allowed.size
            self._quota = Amount(size, allowed.files and used.files + allowed.files)
            self._project.limit(self._quota)

    def disk_watch(
        self,
        engine: Engine,
        allowed: DiskAllowance,
        processes: Callable[[], Iterable[int]] | None = None,
    ) -> DiskWatch:
        """The watch over its use of the disk. `processes` finds those of the container, by default
        from the first one.
        """
        from lading.supervisor.limits.disk_limits import DiskWatch

        def below_first() -> Iterable[int]:
            return descendants(engine.pid) if engine.pid else []

        return DiskWatch(
            run=self._directory,
            allowed=allowed,
            configured=self.reserve,
            processes=processes or below_first,
            has_daemon=not engine.sees_private_mounts,
            base=self._base,
            on_walk=self.overfull_mounts,
        )

    def overfull_mounts(self) -> tuple[str, ...]:
        """Sentences about the tmp mounts that have held more than their own capacity. Blocks."""
        mount_use = self._find_mount_use()
        if mount_use is None:
            return ()
        # Without a measurement nothing is told.
        with contextlib.suppress(OSError):
            mount_use.look()
        return overfull_sentences(mount_use.overfull)

    def _find_mount_use(self) -> MountUse | None:
        if self._mount_use is None and self._plan is not None:
            self._mount_use = _mount_use(self._plan, self._session.container)
        return self._mount_use

    def full(self) -> str:
        """The place that the container had no space for, as a clause; "" for none."""
        why = spent(self._project.used(), self._quota) if self._project is not None else ""
        return why or full_places(self._directory, self.stage)

    async def close(self) -> None:
        """Release cached data, unmount, and lift the limit."""
        if self.stage is not None:
            await self.stage.close()
        if self.keep is not None:
            await self.keep.close()
        if self._project is not None:
            # Zero lifts the limit, so that the removal of the scratch is never refused.
            self._project.limit(Amount())


def _mount_use(plan: MountPlan, container: Container) -> MountUse | None:
    """The use of single mounts, where some have a capacity. None for a gang: its ranks have a
    directory each.
    """
    factor = disk_factor(container.scheduling_parameters)
    capacities = own_capacities(container.mounts, output_path=container.output_path, factor=factor)
    if not capacities or container.nodes > 1:
        return None
    from lading.supervisor.limits.mount_use import MountUse

    directories = {
        bind.target: Path(bind.source.path)
        for bind in plan.binds
        if isinstance(bind.source, HostPath)
    }
    return MountUse(directories, capacities)


def reserve_of(config: SupervisorConfig) -> Amount:
    """The space that must stay free on the disk beside all containers."""
    return Amount(config.disk_reserve, config.disk_reserve_files)
