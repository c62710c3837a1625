"""A device tree whose GPUs are none: device files like /dev/null in a directory, with the names
that drivers give.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_NULL = os.makedev(1, 3)


def make_devices(root: Path, *, cuda: int = 0, rocm: int = 0, real: bool = True) -> Path:
    """The root of a tree with so many GPUs; `real` makes them device files, which takes root, else
    they are empty.
    """
    names = [f"nvidia{number}" for number in range(cuda)]
    names += ["nvidiactl", "nvidia-uvm"] if cuda else []
    names += ["kfd", *(f"dri/renderD{128 + number}" for number in range(rocm))] if rocm else []
    (root / "dev/dri").mkdir(parents=True)
    for name in names:
        path = root / "dev" / name
        if real:
            os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
            path.chmod(0o666)
        else:
            path.touch()
    for number in range(rocm):
        _write(
            root / f"sys/class/kfd/kfd/topology/nodes/{number + 1}/properties",
            "simd_count 4\ngfx_target_version 90010\n",
        )
        _write(
            root / f"sys/class/drm/renderD{128 + number}/device/mem_info_vram_total",
            f"{(number + 1) << 34}\n",
        )
    if rocm:
        _write(
            root / "sys/class/kfd/kfd/topology/nodes/0/properties",
            "simd_count 0\ngfx_target_version 0\n",
        )
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
