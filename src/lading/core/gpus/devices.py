"""The GPUs of one machine: devices, and instances of them.

GPUs of a machine (docs/spec/containers, section Runtime constraints):

- They are found by the names of device files: `/dev/nvidia<n>` (stack `cuda`), and
  `/dev/dri/renderD<128 + n>` of AMD beside `/dev/kfd` (`rocm`) or of Intel (`oneapi`). The kernel
  names the maker of a render node; where it does not, it is AMD's, unless there are GPUs of NVIDIA,
  which have render nodes too. Device files that all GPUs of a maker need are given to every
  container that has one.
- A GPU that is divided (MIG) is replaced by its instances. Each is a GPU for itself: with a lock,
  and with the device files of its capabilities.
- The usable ones are a list: numbers, device files, uuids or their beginnings, names of instances;
  as in CUDA_VISIBLE_DEVICES or SLURM_JOB_GPUS. "" is all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.gpu_architectures import CUDA, ONEAPI, ROCM
from lading.core.values import printable

_NVIDIA, _RENDER = re.compile(r"nvidia(\d{1,4})"), re.compile(r"dri/renderD(\d{1,4})")
# The minor number of the first render node (renderD128), which Linux counts from 128 on.
_FIRST_RENDER = 128
_NVIDIA_SHARED = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")
_KFD = "kfd"
_MAKERS: Final[Mapping[str, str]] = MappingProxyType(
    {"0x10de": CUDA, "0x1002": ROCM, "0x8086": ONEAPI}
)
"""The stacks of makers by their PCI numbers."""
_NO_MAKERS: Final[Mapping[str, str]] = MappingProxyType({})
_LEAST_UUID: Final = 8
_MOST_SHOWN: Final = 16


class GpuDevice(msgspec.Struct, frozen=True):
    """One GPU, or one instance of a GPU: the number of the GPU, and its device file below /dev.

    `instance` is the name of an instance in its specification, "" for a whole GPU, and `parts` are
    its further device files below /dev. `kinds`, `memory` (bytes), `driver` and `bus` (its PCI
    address) are empty where they are not known.
    """

    number: int
    device: str
    stack: str = CUDA
    uuid: str = ""
    instance: str = ""
    parts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    memory: int = 0
    driver: str = ""
    bus: str = ""

    @property
    def name(self) -> str:
        """Its name for people: the device file, of an instance with the end of its name."""
        return f"{self.device}:{self.instance.rpartition(':')[2]}" if self.instance else self.device

    @property
    def lock(self) -> str:
        """The name of the file that the holder locks; it has the run directory of the container."""
        return "-".join((self.stack, str(self.number), *map(_last_word, self.parts)))

    @property
    def fault_file(self) -> str:
        """The name of the file that says why the GPU is out of service; beside that of the lock."""
        return f"{self.stack}-{self.number}.fault"


class GpuDevices(msgspec.Struct, frozen=True):
    """The GPUs of a machine, those of a maker in the order of their numbers, and for each stack the
    device files that all of its GPUs share.
    """

    devices: tuple[GpuDevice, ...] = ()
    shared: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


def find_gpus(
    names: Collection[str], makers: Mapping[str, str] = MappingProxyType({})
) -> GpuDevices:
    """The GPUs in the names of device files, relative to /dev. `makers` has the PCI numbers of the
    makers of render nodes, as far as the kernel names them.
    """
    nvidia = _matching_devices(names, _NVIDIA, CUDA, 0)
    renders = _matching_devices(names, _RENDER, ROCM, _FIRST_RENDER)
    shared = {}
    if nvidia:
        shared[CUDA] = tuple(name for name in _NVIDIA_SHARED if name in names)
    # Without a maker it may be the render node of a GPU of NVIDIA.
    unknown = "" if nvidia else ROCM
    stacks = {gpu.device: _MAKERS.get(makers.get(gpu.device, ""), unknown) for gpu in renders}
    amd = [gpu for gpu in renders if stacks[gpu.device] == ROCM and _KFD in names]
    if amd:
        shared[ROCM] = (_KFD,)
    intel = [structs.replace(gpu, stack=ONEAPI) for gpu in renders if stacks[gpu.device] == ONEAPI]
    return GpuDevices((*nvidia, *amd, *intel), shared)


def with_instances(gpus: GpuDevices, instances: Iterable[GpuDevice]) -> GpuDevices:
    """The GPUs, those that are divided replaced by their instances: these have the number of their
    GPU, and what is known of it unless they say it themselves.
    """
    by_number: dict[int, dict[tuple[str, ...], GpuDevice]] = {}
    for instance in instances:
        # Specifications may name one instance by number and by uuid.
        by_number.setdefault(instance.number, {}).setdefault(instance.parts, instance)

    def divided(gpu: GpuDevice) -> list[GpuDevice]:
        if gpu.stack != CUDA or gpu.number not in by_number:
            return [gpu]
        return [
            structs.replace(
                gpu,
                uuid=instance.uuid,
                instance=instance.instance,
                parts=instance.parts,
                # The model and the memory are those of the whole.
                kinds=instance.kinds,
                memory=instance.memory,
            )
            for instance in by_number[gpu.number].values()
        ]

    return structs.replace(
        gpus, devices=tuple(single for gpu in gpus.devices for single in divided(gpu))
    )


def only_cards(gpus: GpuDevices, visible: str) -> GpuDevices:
    """The GPUs in a list such as "0,2" or "GPU-5f3a"; all for "". Raises Invalid for a missing
    one, and for a number that GPUs of several makers have.
    """
    if not visible:
        return gpus
    chosen: dict[GpuDevice, None] = {}
    for word in visible.split(","):
        chosen |= dict.fromkeys(_named(gpus.devices, word.strip()))
    return structs.replace(gpus, devices=tuple(chosen))


def _named(gpus: Sequence[GpuDevice], word: str) -> list[GpuDevice]:
    """The GPUs that a word names: one, or the instances of one."""
    matches = [
        gpu
        for gpu in gpus
        # A whole GPU has no name of an instance, and some have no uuid.
        if word
        and (
            word in (str(gpu.number), gpu.device, f"/dev/{gpu.device}", gpu.instance, gpu.uuid)
            or (len(word) >= _LEAST_UUID and gpu.uuid.startswith(word))
        )
    ]
    if not matches:
        names = ", ".join(_word_of(gpu, gpus) for gpu in gpus[:_MOST_SHOWN]) or "none"
        raise Invalid(
            f"GPU {printable(word[:80])!r}: no device of this machine has that number; "
            f"there are: {names}"
        )
    if len({gpu.device for gpu in matches}) > 1:
        names = ", ".join(sorted({gpu.device for gpu in matches})[:_MOST_SHOWN])
        raise Invalid(f"GPU {printable(word[:80])!r}: is one of {names}; name the device file")
    return matches


def _word_of(gpu: GpuDevice, gpus: Sequence[GpuDevice]) -> str:
    """The shortest word that names a GPU."""
    if gpu.instance:
        return gpu.instance
    has_one_maker = len({device.stack for device in gpus}) == 1
    return str(gpu.number) if has_one_maker else gpu.device


def rocm_target(version: int) -> str:
    """The architecture in the kernel's number for it: 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _matching_devices(
    names: Collection[str], pattern: re.Pattern[str], stack: str, first: int
) -> list[GpuDevice]:
    gpus = [
        GpuDevice(int(match[1]) - first, name, stack)
        for name in names
        if (match := pattern.fullmatch(name))
    ]
    return sorted(gpus, key=lambda gpu: gpu.number)


def _last_word(path: str) -> str:
    """The last part of a device file's name: `cap21` of nvidia-caps/nvidia-cap21."""
    return path.rpartition("-")[2]
