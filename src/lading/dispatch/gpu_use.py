"""Who has which GPU of this machine, by the files that supervisors lock.

The holder of a GPU writes its run directory into the file of the GPU; the directory has the name of
the container. A file that is empty, or whose directory is gone, belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.scheduling import gpu_devices
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.machines import MachineGpu
from lading.dispatch.capacity import list_devices

_MOST_GPUS: Final = 256
_LONGEST_PATH: Final = 4096


def watch_gpus(
    gpu: Gpu, *, root: Path, visible: str, locks: Path
) -> Callable[[], tuple[MachineGpu, ...]]:
    """A function that tells who has which GPU; it looks at no file of a machine without any."""
    return partial(see_use, root=root, visible=visible, locks=locks) if gpu.count else tuple


def see_use(*, root: Path, visible: str, locks: Path) -> tuple[MachineGpu, ...]:
    """The GPUs below `root` that containers may use, with their containers. `visible` lists their
    numbers, such as "0,2"; "" is all. `locks` is the directory of the files.
    """
    try:
        found = gpu_devices.only_cards(gpu_devices.find_gpus(list_devices(root)), visible)
    except Invalid:
        # A device that is gone since the start of the dispatcher.
        return ()
    return tuple(
        _use(gpu.device, locks / gpu_devices.lock_name(found.stack, gpu))
        for gpu in found.devices[:_MOST_GPUS]
    )


def _use(device: str, lock: Path) -> MachineGpu:
    try:
        with lock.open("rb") as file:
            holder = file.read(_LONGEST_PATH).decode(errors="replace")
        if holder and Path(holder).exists():
            name = Path(holder).name
            is_known = is_uuid(name, Infix.CONTAINER)
            return MachineGpu(device=device, is_used=True, container=name if is_known else "")
    # Nobody has had it yet, or another user's supervisor has it.
    except (OSError, ValueError):
        pass
    return MachineGpu(device=device)
