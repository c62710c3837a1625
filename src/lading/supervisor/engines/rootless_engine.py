"""The native engine of an ordinary user, in the namespaces of `supervisor.rootless`.

It is the native engine with other walls: each container has a user namespace below the one of the
user, with the ids of that one. There are no control groups, unless systemd has delegated one
(`delegation`): the supervisor samples the memory of a container, and its processes are bounded by
RLIMIT_NPROC.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from msgspec import structs

from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, EngineSettings
from lading.supervisor.engines.accounts import account_of
from lading.supervisor.engines.adoption import RunningContainer
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.owner_namespace import OwnerNamespace, admit
from lading.supervisor.engines.runtimes import Prepared
from lading.supervisor.engines.user_namespace import UserNamespace, UserNamespacePolicy
from lading.supervisor.inputs.layers import LayerStore, Unpacked
from lading.supervisor.limits.cgroup import Hierarchy
from lading.supervisor.limits.limit_ways import DELEGATED
from lading.supervisor.rootless import Entered, RootKind, entered

LAYERS = "layers-of-user"
"""Directory of a cache with the layers that an ordinary user has unpacked: their owners and marks
are others than root's.
"""
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

    async def create(self, spec: ContainerSpec) -> None:
        """As the native engine, but no gang. Raises ExecutionError."""
        if spec.nodes > 1:
            raise ExecutionError(
                f"{self._uuid}: an ordinary user cannot run a gang: its ranks need control groups"
                " and a network that root makes",
                Failure.NODE,
            )
        await super().create(spec)

    def running(self) -> tuple[RunningContainer, dict[str, int]] | None:
        """As the native engine; None where a program that serves its root ends with this
        process.
        """
        if self._entered_as.root_kind is RootKind.FUSE_OVERLAY:
            return None
        return super().running()

    def _configure(
        self, spec: ContainerSpec, image: Unpacked, rootfs: Path, prepared: Prepared
    ) -> dict[str, object]:
        account = account_of(image.config.user, rootfs)
        admitted, note = admit(account, self._entered_as.ids)
        if note and note not in self.notes:
            self.notes.append(note)
        if admitted != account:
            image = structs.replace(image, config=structs.replace(image.config, user=""))
        return super()._configure(spec, image, rootfs, prepared)

    _kernel_way = DELEGATED

    def _open_store(self, cache: Path, *, limit: int, reserve: Amount) -> LayerStore:
        is_merging, ids = self._entered_as.root_kind is not RootKind.OVERLAY, self._entered_as.ids
        # Layers whose files have owners are of no use to a process that has one id.
        name = f"{LAYERS}{'-ids' if ids > 1 else ''}{'-merged' if is_merging else ''}"
        return LayerStore(
            cache / name, limit=limit, reserve=reserve, user_ids=ids, is_merging=is_merging
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
