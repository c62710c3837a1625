"""The mounts of one container of an ordinary user, in the namespaces of `supervisor.rootless`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lading.core.images import Account
from lading.core.user_ids import Extent
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, user_roots
from lading.supervisor.engines.user_namespace import (
    NO_DEVICES,
    NO_SUID,
    UserNamespace,
    attach_mount,
    copy_mount,
)
from lading.supervisor.rootless import RootKind

_EXTENTS = (Extent(0, 0, 1),)


class OwnerNamespace(UserNamespace):
    """The mounts of one container of an ordinary user, whose one id its root has."""

    def __init__(self, run: Path, machine: Path, *, root_kind: RootKind = RootKind.OVERLAY) -> None:
        super().__init__(run, machine)
        self._root_kind = root_kind

    def open(self, ids: Collection[int] = ()) -> None:
        """Make the directory. Large `ids` do not exist in this namespace, and are ignored."""
        del ids
        self.extents = _EXTENTS
        self._hold()

    def lacking(self, account: Account) -> frozenset[int]:
        """No id: each command runs as root (`one_account`)."""
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


def one_account(account: Account) -> tuple[Account, str]:
    """The account of a command where one id is mapped, and a note, or "", about the ids that it
    lacks.
    """
    root = Account(0, 0)
    if (account.uid, account.gid) == (0, 0):
        return root, ""
    return root, (
        f"the command runs as root of its container, and not as {account.uid}:{account.gid} as the"
        " image says: an ordinary user has one id for a container"
    )
