"""The root file system of a container: an overlay of its image's layers, with changes in its bundle
or in memory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from lading.supervisor import linux
from lading.supervisor.engines.user_namespace import UserNamespace

IN_MEMORY = "the data directory is on an overlay: changes outside of mounts are kept in memory"
# The unified hierarchy of a hybrid machine, which crun refuses (see `native`).
_UNIFIED = "/sys/fs/cgroup/unified"


def mount_root(
    layers: Sequence[Path],
    bundle: Path,
    namespace: UserNamespace | None = None,
    *,
    name: str = "rootfs",
) -> tuple[Path, str]:
    """Mount the root; return its path, and a note or "". Raises OSError.

    `layers` are lowest first. `name` distinguishes it from other roots of the same user namespace.
    """
    if os.path.ismount(_UNIFIED):
        linux.unmount(_UNIFIED)
    for one in ("upper", "work"):
        (bundle / one).mkdir(mode=0o755, parents=True)
    # overlayfs wants the topmost layer first.
    lower = [str(one) for one in reversed(layers)]
    if namespace is None:
        rootfs = bundle / "rootfs"
        rootfs.mkdir(mode=0o755)
        return rootfs, _mount(rootfs, lower, bundle, None)
    rootfs = namespace.rootfs(name)
    return rootfs, _mount(rootfs, namespace.layers(lower), bundle, namespace)


def _mount(
    rootfs: Path, lower: Sequence[str], bundle: Path, namespace: UserNamespace | None
) -> str:
    try:
        _overlay(rootfs, lower, bundle, namespace)
    except OSError as error:
        # EINVAL: the upper directory is on a file system that overlayfs does not accept.
        if error.errno != errno.EINVAL:
            raise
    else:
        return ""
    # The data directory is on an overlay itself, which cannot hold the changes of another.
    memory = bundle / "memory"
    memory.mkdir()
    linux.mount("tmpfs", str(memory), "tmpfs", "mode=0755")
    for one in ("upper", "work"):
        (memory / one).mkdir()
    _overlay(rootfs, lower, memory, namespace)
    return IN_MEMORY


def _overlay(
    rootfs: Path, lower: Sequence[str], changes: Path, namespace: UserNamespace | None
) -> None:
    upper = changes / "upper"
    if namespace is not None:
        namespace.own(upper)
    linux.mount_overlay(str(rootfs), lower=lower, upper=str(upper), work=str(changes / "work"))
