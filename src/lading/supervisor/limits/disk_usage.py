"""Measurement of the disk that the containers of a machine use.

- `measure` walks over files that a container may change meanwhile. Removed files that are still
  open have no name: they are found by the descriptors and mappings of the container's processes
  (`open_files`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading.core.containers.disk_space import Amount, DiskWriter
from lading.process.cancellation import Stop, never
from lading.process.confined import ConfinedTree
from lading.supervisor.limits.open_files import BLOCK

USAGE_NAME = "disk"
"""Name in a run directory: the container's use, for the supervisors beside it."""
# Levels of directories; a deeper tree is refused, which ends the container.
MAX_DEPTH = 400
# Bytes of that file, always written whole: its block is allocated before the disk is full.
_LENGTH = 512
# Seconds after which the report of another supervisor is ignored: it has ended or hangs.
_FRESH = 30.0


def measure(places: Iterable[Path], *, most: Amount, stop: Stop = never) -> dict[int, Amount]:
    """Use of files, and below directories, by device; hard links count once. It ends early with
    more than `most` (0 is no limit).

    A missing place counts as nothing. Raises OSError, ELOOP for directories that are too deep.
    """
    uses: dict[int, Amount] = {}
    counted_files: set[tuple[int, int]] = set()
    for path in places:
        with contextlib.suppress(FileNotFoundError), _entries(path, stop) as (device, entries):
            before = uses.get(device, Amount())
            size, files = before.size, before.files
            for status in _counted(entries, device, counted_files):
                size, files = size + status.st_blocks * BLOCK, files + 1
                if 0 < most.size < size or 0 < most.files < files:
                    break
            uses[device] = Amount(size, files)
    return uses


@contextlib.contextmanager
def _entries(path: Path, stop: Stop) -> Iterator[tuple[int, Iterable[os.stat_result]]]:
    """The device of a directory, and everything below it; or of a single file, and this file.
    Raises OSError.
    """
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        yield status.st_dev, (status,)
        return
    with ConfinedTree.open(path) as tree:
        yield tree.stat().st_dev, tree.survey(max_depth=MAX_DEPTH, stop=stop)


def _counted(
    entries: Iterable[os.stat_result], device: int, counted_files: set[tuple[int, int]]
) -> Iterator[os.stat_result]:
    """The entries of one file system, a file with several names once: `counted_files` has it."""
    for status in entries:
        # A mount of another file system.
        if status.st_dev != device:
            continue
        # Only files with several names are remembered: most have one, and a set of all would take
        # some 100 bytes for each file of the container.
        if status.st_nlink > 1:
            if (device, status.st_ino) in counted_files:
                continue
            counted_files.add((device, status.st_ino))
        yield status


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The containers in one directory of run directories, and the use that each reports. `clock`:
    seconds since 1970.
    """

    run: Path
    clock: Callable[[], float]

    def tell(self, uses: Mapping[int, DiskWriter]) -> None:
        """Report the use of this container on each file system. On a full disk the first report may
        fail.
        """
        shares = {str(device): _Use(writer.taken, writer.grown) for device, writer in uses.items()}
        # The others take it for one that writes nothing, until its next report.
        with contextlib.suppress(OSError):
            descriptor = os.open(
                self.run / USAGE_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                # Padded with blanks: an existing file then needs no new block on a full disk.
                os.pwrite(descriptor, msgspec.json.encode(shares).ljust(_LENGTH), 0)
            finally:
                os.close(descriptor)

    def are_unknown(self) -> bool:
        """Whether another container has not reported its use yet, or cannot on a full disk."""
        runs = (path.parent for path in self.run.parent.glob("*/journal"))
        return any(run != self.run and not self._has_told(run / USAGE_NAME) for run in runs)

    def _has_told(self, path: Path) -> bool:
        # Nothing was reported yet.
        with contextlib.suppress(OSError):
            return self._is_fresh(path) and path.read_bytes().strip() != b"{}"
        return False

    def _is_fresh(self, path: Path) -> bool:
        try:
            return self.clock() - path.stat().st_mtime < _FRESH
        except OSError:
            # A missing file is not fresh.
            return False

    def others(self, device: int) -> list[DiskWriter]:
        """Recent reports of the others about a file system."""
        writers = []
        for path in self.run.parent.glob(f"*/{USAGE_NAME}"):
            if path.parent == self.run:
                continue
            # Unreadable reports of others are left out.
            with contextlib.suppress(OSError, msgspec.DecodeError):
                if self._is_fresh(path):
                    shares = msgspec.json.decode(path.read_bytes(), type=dict[str, _Use])
                    use = shares.get(str(device), _Use(Amount(), Amount()))
                    writers.append(DiskWriter(path.parent.name, use.taken, use.grown))
        return writers


class _Use(msgspec.Struct, array_like=True):
    """Use of one file system by a container."""

    taken: Amount
    grown: Amount
