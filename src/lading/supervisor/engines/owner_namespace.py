"""The mounts of one container of an ordinary user, in the namespaces of `supervisor.rootless`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lading.core.images import Account
from lading.core.user_ids import Extent
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, user_roots
from lading.supervisor.engines.id_mappings import NO_DEVICES, NO_SUID, attach_mount, copy_mount
from lading.supervisor.engines.user_namespace import UserNamespace
from lading.supervisor.rootless import RootKind


class OwnerNamespace(UserNamespace):
    """The mounts of one container of an ordinary user, whose id its root has. Its ids are those of
    the namespace around it.
    """

    def __init__(
        self,
        run: Path,
        machine: Path,
        *,
        root_kind: RootKind = RootKind.OVERLAY,
        extents: tuple[Extent, ...] = (Extent(0, 0, 1),),
    ) -> None:
        """`extents`: its ids, in the namespace of this process."""
        super().__init__(run, machine)
        self._root_kind = root_kind
        self._ids = extents

    def open(self, ids: Collection[int] = ()) -> None:
        """Make the directory. Large `ids` do not exist in this namespace, and are ignored."""
        del ids
        self.extents = self._ids
        self._hold()

    def lacking(self, account: Account) -> frozenset[int]:
        """An empty set: no account is refused. A command whose user or group has no id in this
        namespace runs as root (`admit`).
        """
        del account
        return frozenset()

    def mount_overlay(self, target: str, *, lower: Sequence[str], upper: str, work: str) -> None:
        """Mount the root, or what the machine has in its place. Raises OSError, ExecutionError."""
        match self._root_kind:
            case RootKind.OVERLAY:
                linux.mount_overlay(target, lower=lower, upper=upper, work=work, of_user=True)
            case RootKind.FUSE_OVERLAY:
                user_roots.mount_fuse_overlay(target, lower=lower, upper=upper, work=work)
            case RootKind.COPY:
                # All layers are one directory (`LayerStore`).
                (layer,) = lower
                user_roots.copy_layer(layer, upper)
                attach_mount(copy_mount(upper, attributes=NO_DEVICES), target)

    def own(self, path: Path) -> None:
        """Do nothing: every file that this process makes belongs to the container's root."""

    def devices(self, devices: Sequence[Device]) -> tuple[Bind, ...]:
        """Device files of the machine, with the rights that the user has to them. Raises
        OSError.
        """
        place = self._make(self.directory / "devices")
        binds = []
        for number, device in enumerate(devices):
            file = place / str(number)
            file.touch()
            attach_mount(copy_mount(device.source, attributes=NO_SUID), str(file))
            binds.append(Bind(str(file), device.target, False))
        return tuple(binds)


def admit(account: Account, ids: int) -> tuple[Account, str]:
    """The account of a command in a container with the ids 0 to `ids` - 1, and a note, or "", if it
    is another one than the image says.
    """
    if max(account.uid, account.gid, *account.groups) < ids:
        return account, ""
    lacking = (
        "an ordinary user has one id for a container"
        if ids == 1
        else f"this user has {ids} ids for a container"
    )
    return Account(0, 0), (
        f"the command runs as root of its container, and not as {account.uid}:{account.gid} as the"
        f" image says: {lacking}"
    )
