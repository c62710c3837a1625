"""Kind of storage of a directory, in the words of `device_type`: ram, ssd, disk or network."""

from __future__ import annotations

import os
from pathlib import Path

# Types of file systems (statfs(2), /proc/mounts) in memory and over the network.
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_REMOTE = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "afs",
        "9p",
        "virtiofs",
        "glusterfs",
    }
)
# FUSE file systems; those for programs on this machine cannot be told from remote ones.
_BEHIND_A_PROGRAM = "fuse."


def device_type(directory: Path, *, root: Path = Path("/")) -> str:
    """The kind of storage of a directory; "" when the machine does not report it. `root` contains
    `proc` and `sys`.
    """
    number = directory.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    kind = _file_system(device, root / "proc/self/mountinfo")
    if kind in _IN_MEMORY:
        return "ram"
    if kind in _REMOTE or kind.startswith(_BEHIND_A_PROGRAM):
        return "network"
    return _block_device(root / "sys/dev/block" / device)


def _file_system(device: str, mounts: Path) -> str:
    """Type of the file system on a device, from the table of mounts; "" when it is not listed."""
    try:
        for line in mounts.read_text(errors="replace").splitlines():
            words, _, rest = line.partition(" - ")
            if words.split()[2:3] == [device]:
                return rest.split()[0]
    except (OSError, IndexError):
        # Unknown; an empty type matches none.
        return ""
    return ""


def _block_device(entry: Path) -> str:
    """Whether a block device rotates; a partition has no queue directory, so its disk is asked."""
    place = entry.resolve()
    for one in (place, place.parent):
        try:
            return "disk" if (one / "queue/rotational").read_text().strip() == "1" else "ssd"
        except OSError:
            # Not a disk with this attribute, for example a partition; try its parent.
            continue
    return ""
