"""The native engine of an ordinary user, in the namespaces of `supervisor.rootless`.

It is the native engine with other walls: each container has a user namespace below the one of the
user, with the ids of that one. There are no control groups, unless systemd has delegated one
(`delegation`): the supervisor samples the memory of a container, and its processes are bounded by
RLIMIT_NPROC.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec import structs

from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, EngineSettings, Exit
from lading.supervisor.engines.accounts import account_of
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.owner_namespace import OwnerNamespace, admit
from lading.supervisor.engines.runtimes import Prepared
from lading.supervisor.engines.user_namespace import UserNamespace, UserNamespacePolicy
from lading.supervisor.inputs.layers import LayerStore, Unpacked
from lading.supervisor.limits import counters
from lading.supervisor.limits.cgroup import Hierarchy
from lading.supervisor.limits.memory_samples import MemoryLimit
from lading.supervisor.limits.user_limits import UserLimits, kernel_can_count
from lading.supervisor.rootless import Entered, RootKind, entered

LAYERS = "layers-of-user"
"""Directory of a cache with the layers that an ordinary user has unpacked: their owners and marks
are others than root's.
"""
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a path inside the container
_NO_CONTROL_GROUPS = Hierarchy(2, MappingProxyType({}))


class RootlessEngine(NativeEngine):
    """One container run by crun for an ordinary user, whose namespaces this process has entered."""

    def __init__(self, settings: EngineSettings) -> None:
        found = entered()
        if found is None:
            raise ExecutionError(
                "this process is not in the namespaces of an ordinary user", Failure.NODE
            )
        self._entered_as: Entered = found
        super().__init__(settings)
        # The root of the user's namespace could mount and read everything of all its containers.
        self._policy = UserNamespacePolicy.ALWAYS
        self._limits = UserLimits()

    async def create(self, spec: ContainerSpec) -> None:
        """As the native engine, with a note on how limits are enforced. Raises ExecutionError."""
        if spec.nodes > 1:
            raise ExecutionError(
                f"{self._uuid}: an ordinary user cannot run a gang: its ranks need control groups"
                " and a network that root makes",
                Failure.NODE,
            )
        roots = self._hierarchy().roots
        self._limits = UserLimits(
            ram=0 if "memory" in roots else spec.ram,
            vcpus=0 if "cpu" in roots else spec.vcpus,
            processes=0 if "pids" in roots else spec.processes,
            can_count=kernel_can_count(),
            by_kernel=tuple(
                name
                for name, controller, limit in (
                    ("ram", "memory", spec.ram),
                    ("vcpus", "cpu", spec.vcpus),
                    ("processes", "pids", spec.processes),
                )
                if limit and controller in roots
            ),
        )
        limited = structs.replace(
            spec,
            ram=spec.ram - self._limits.ram,
            vcpus=spec.vcpus - self._limits.vcpus,
            processes=spec.processes - self._limits.processes,
        )
        await super().create(limited)
        note = self._limits.sentence()
        self.notes += [note] if note else []

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """As the native engine, with the memory sampled. Raises ExecutionError."""
        if not self._limits.ram:
            return await super().run(stop=stop, stop_grace=stop_grace)
        limit = MemoryLimit(self._limits.ram, self._find_first, _kill)
        watching = asyncio.create_task(limit.run(), name="memory samples")
        try:
            ended = await super().run(stop=stop, stop_grace=stop_grace)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if not limit.excess:
            return ended
        return structs.replace(ended, out_of_memory=True, sampled_memory=limit.excess)

    def _find_first(self) -> int | None:
        return linux.find_init(counters.descendants(self.pid)) if self.pid else None

    def _configure(
        self, spec: ContainerSpec, image: Unpacked, rootfs: Path, prepared: Prepared
    ) -> dict[str, object]:
        account = account_of(image.config.user, rootfs)
        admitted, note = admit(account, self._entered_as.ids)
        if note and note not in self.notes:
            self.notes.append(note)
        if admitted != account:
            image = structs.replace(image, config=structs.replace(image.config, user=""))
        return with_limits(super()._configure(spec, image, rootfs, prepared), self._limits)

    def _open_store(self, cache: Path, *, limit: int, kept: Amount) -> LayerStore:
        is_merging, ids = self._entered_as.root_kind is not RootKind.OVERLAY, self._entered_as.ids
        # Layers whose files have owners are of no use to a process that has one id.
        place = f"{LAYERS}{'-ids' if ids > 1 else ''}{'-merged' if is_merging else ''}"
        return LayerStore(
            cache / place, limit=limit, kept=kept, user_ids=ids, is_merging=is_merging
        )

    def _hierarchy(self) -> Hierarchy:
        return self._entered_as.hierarchy or _NO_CONTROL_GROUPS

    def _new_namespace(self) -> UserNamespace:
        inside = self._entered_as
        return OwnerNamespace(
            self._run, inside.machine, root_kind=inside.root_kind, extents=inside.extents
        )

    def _leave_namespace(self, error: OSError) -> None:
        raise ExecutionError(
            f"{self._uuid}: the container cannot be made: {error}", Failure.NODE
        ) from error


def with_limits(config: dict[str, Any], limits: UserLimits) -> dict[str, Any]:
    """The configuration of a bundle with the limits that need no control group. Files in /dev/shm
    are memory that no process needs to have open.
    """
    if limits.nproc:
        row = {"type": "RLIMIT_NPROC", "hard": limits.nproc, "soft": limits.nproc}
        config["process"]["rlimits"].append(row)
    if limits.ram:
        for mount in config["mounts"]:
            if mount["destination"] == SHARED_MEMORY and mount["type"] == "tmpfs":
                mount["options"] = [*mount["options"], f"size={limits.ram}"]
    return config


def _kill(first: int) -> None:
    # Its pid namespace ends with it. It has ended already.
    with contextlib.suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
