"""Disk use of a container on this machine, and its exchange between supervisors.

`measure` walks over files that a container may change meanwhile. Removed files that are still open
have no name: they are found by the descriptors and mappings of the container's processes (`held`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from lading.client.disk_space import lacks_room
from lading.confined import ConfinedTree, Stop, never
from lading.core.containers.disk_space import Amount, DiskWriter
from lading.core.errors import ExecutionError, Failure
from lading.core.resources import format_bytes

NAME = "disk"
"""Name in a run directory: the container's use, for the supervisors beside it."""
# Levels of directories; a deeper tree is refused, which ends the container.
MAX_DEPTH = 400
# st_blocks counts units of 512 bytes (stat(2)).
_UNIT = 512
_LENGTH = 512
"""Bytes of that file, always written whole: its block is allocated before the disk is full."""
_FRESH = 30.0
"""Seconds after which the report of another supervisor is ignored: it has ended or hangs."""
_PROC = Path("/proc")


def check_room(directory: Path, wanted: Amount, *, need: int = 0, what: str = "") -> None:
    """Raise ExecutionError when `need` bytes do not fit on a disk beside the configured reserve."""
    why = lacks_room(directory, wanted, need=need)
    if why and need:
        raise ExecutionError(f"no room for the {format_bytes(need)} of {what}: {why}", Failure.DISK)
    if why:
        raise ExecutionError(f"the container cannot begin: {why}", Failure.NODE)


def measure(places: Iterable[Path], *, most: Amount, stop: Stop = never) -> dict[int, Amount]:
    """Use below the directories, by device; hard links count once. It ends early with more than
    `most` (0 is no limit).

    A missing place counts as nothing. Raises OSError, ELOOP for directories that are too deep.
    """
    uses: dict[int, Amount] = {}
    seen: set[tuple[int, int]] = set()
    for place in places:
        with contextlib.suppress(FileNotFoundError), ConfinedTree.open(place) as tree:
            device = tree.stat().st_dev
            size, files = (lambda one: (one.size, one.files))(uses.get(device, Amount()))
            for found in tree.survey(max_depth=MAX_DEPTH, stop=stop):
                # A mount of another file system.
                if found.st_dev != device:
                    continue
                # Only files with several names are remembered.
                if found.st_nlink > 1:
                    if (device, found.st_ino) in seen:
                        continue
                    seen.add((device, found.st_ino))
                size, files = size + found.st_blocks * _UNIT, files + 1
                if 0 < most.size < size or 0 < most.files < files:
                    break
            uses[device] = Amount(size, files)
    return uses


def held(pids: Iterable[int], *, proc: Path = _PROC) -> dict[int, Amount]:
    """Open or mapped files of the processes that have no name."""
    uses: dict[int, Amount] = {}
    seen: set[tuple[int, int]] = set()
    for pid in pids:
        for found in _open_files(proc / str(pid)):
            key = (found.st_dev, found.st_ino)
            # Files in memory and devices have no blocks here.
            if found.st_nlink == 0 and found.st_blocks and key not in seen:
                seen.add(key)
                uses[found.st_dev] = uses.get(found.st_dev, Amount()) + Amount(
                    found.st_blocks * _UNIT, 1
                )
    return uses


def _open_files(process: Path) -> Iterator[os.stat_result]:
    # map_files: a mapped file may have no descriptor (proc_pid_map_files(5)).
    for folder in ("fd", "map_files"):
        # The process has ended, or its files are not visible to this user.
        with contextlib.suppress(OSError), os.scandir(process / folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat()


def layers(pids: Iterable[int], *, proc: Path = _PROC) -> tuple[Path, ...]:
    """Upper directories of the overlays that are the root of these processes, where this machine
    sees them.

    So a daemon need not tell where it keeps the changes of a container.
    """
    found: dict[Path, None] = {}
    for pid in pids:
        for line in _read(proc / str(pid) / "mountinfo").splitlines():
            fields = line.split(" ")
            if fields[4] == "/" and fields[fields.index("-", 6) + 1] == "overlay":
                options = dict(one.partition("=")[::2] for one in fields[-1].split(","))
                upper = Path(options.get("upperdir", ""))
                if upper.is_absolute() and upper.is_dir() and not upper.is_relative_to(proc):
                    found[upper] = None
    return tuple(found)


class Neighbours:
    """The containers in one directory of run directories, and the use that each reports."""

    def __init__(self, run_directory: Path, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._run = run_directory
        self._clock = clock

    def tell(self, uses: Mapping[int, DiskWriter]) -> None:
        """Report the use of this container on each file system. On a full disk the first report may
        fail.
        """
        shares = {str(device): _Use(one.taken, one.grown) for device, one in uses.items()}
        with contextlib.suppress(OSError):
            descriptor = os.open(self._run / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Padded with blanks: an existing file then needs no new block on a full disk.
                os.pwrite(descriptor, msgspec.json.encode(shares).ljust(_LENGTH), 0)
            finally:
                os.close(descriptor)

    def are_unknown(self) -> bool:
        """Whether another container has not reported its use yet, or cannot on a full disk."""
        runs = (path.parent for path in self._run.parent.glob("*/journal"))
        return any(run != self._run and not self._has_told(run / NAME) for run in runs)

    def _has_told(self, path: Path) -> bool:
        # Nothing was reported yet.
        with contextlib.suppress(OSError):
            return self._is_fresh(path) and path.read_bytes().strip() != b"{}"
        return False

    def _is_fresh(self, path: Path) -> bool:
        try:
            return self._clock() - path.stat().st_mtime < _FRESH
        except OSError:
            # A missing file is not fresh.
            return False

    def others(self, device: int) -> list[DiskWriter]:
        """Recent reports of the others about a file system."""
        found = []
        for path in self._run.parent.glob(f"*/{NAME}"):
            if path.parent == self._run:
                continue
            # Unreadable reports of others are left out.
            with contextlib.suppress(OSError, msgspec.DecodeError):
                if self._is_fresh(path):
                    shares = msgspec.json.decode(path.read_bytes(), type=dict[str, _Use])
                    one = shares.get(str(device), _Use(Amount(), Amount()))
                    found.append(DiskWriter(path.parent.name, one.taken, one.grown))
        return found


class _Use(msgspec.Struct, array_like=True):
    """Use of one file system by a container."""

    taken: Amount
    grown: Amount


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
