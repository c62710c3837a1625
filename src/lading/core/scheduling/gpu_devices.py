"""The GPUs of one machine: devices, drivers, and which containers they suit.

GPUs of a machine (docs/spec/containers, section Runtime constraints):

- They are found by the names of device files. A machine has GPUs of one maker: `/dev/nvidia<n>`
  (stack `cuda`), or `/dev/dri/renderD<128 + n>` beside `/dev/kfd` (stack `rocm`). Device files that
  all GPUs need are given to every container that has one.
- The usable ones are a list of numbers, as in CUDA_VISIBLE_DEVICES or SLURM_JOB_GPUS; "" is all.
- Unknown properties of a machine's GPUs (driver, kind, memory) are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.gpu_architectures import CUDA, ROCM
from lading.core.scheduling.instance_types import Gpu, gpu_lack

_NVIDIA, _RENDER = re.compile(r"nvidia(\d+)"), re.compile(r"dri/renderD(\d+)")
# The minor number of the first render node (renderD128), which Linux counts from 128 on.
_FIRST_RENDER = 128
_NVIDIA_SHARED = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")
_KFD = "kfd"


class GpuDevice(msgspec.Struct, frozen=True):
    """One GPU: its number, and its device file below /dev."""

    number: int
    device: str


class GpuDevices(msgspec.Struct, frozen=True):
    """The GPUs of a machine in the order of their numbers, and the device files that all of them
    share.
    """

    stack: str = ""
    devices: tuple[GpuDevice, ...] = ()
    shared: tuple[str, ...] = ()


def find_gpus(names: Collection[str]) -> GpuDevices:
    """The GPUs in the names of device files, relative to /dev."""
    nvidia = [GpuDevice(int(hit[1]), name) for name in names if (hit := _NVIDIA.fullmatch(name))]
    if nvidia:
        return GpuDevices(
            CUDA, _sorted(nvidia), tuple(name for name in _NVIDIA_SHARED if name in names)
        )
    if _KFD in names:
        renders = [
            GpuDevice(int(hit[1]) - _FIRST_RENDER, name)
            for name in names
            if (hit := _RENDER.fullmatch(name))
        ]
        return GpuDevices(ROCM, _sorted(renders), (_KFD,)) if renders else GpuDevices()
    return GpuDevices()


def only_cards(gpus: GpuDevices, numbers: str) -> GpuDevices:
    """The GPUs with the numbers in a list such as "0,2"; all for "". Raises Invalid for a missing
    one.
    """
    if not numbers:
        return gpus
    by_number = {str(gpu.number): gpu for gpu in gpus.devices}
    chosen = [number.strip() for number in numbers.split(",")]
    for number in chosen:
        if number not in by_number:
            there = ", ".join(by_number) or "none"
            raise Invalid(
                f"GPU {number!r}: no device of this machine has that number; there are: {there}"
            )
    return structs.replace(
        gpus, devices=tuple(by_number[number] for number in dict.fromkeys(chosen))
    )


def lock_name(stack: str, gpu: GpuDevice) -> str:
    """The name of the file that the holder of a GPU locks; it has the run directory of the
    container.
    """
    return f"{stack}-{gpu.number}"


def unsuited_gpu(asked: Gpu, available: Gpu) -> str:
    """Reason that the GPUs of a machine do not satisfy a container, in a few words, or ""."""
    if not asked.count:
        return ""
    compared = structs.replace(
        asked,
        stack=asked.stack if available.stack else "",
        driver=asked.driver if available.driver else "",
        vram=asked.vram if available.vram else 0,
        targets=asked.targets if available.targets else (),
    )
    return gpu_lack(compared, available)


def rocm_target(version: int) -> str:
    """The architecture in the kernel's number for it: 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _sorted(gpus: list[GpuDevice]) -> tuple[GpuDevice, ...]:
    return tuple(sorted(gpus, key=lambda gpu: gpu.number))
