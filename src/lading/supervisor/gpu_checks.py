"""The checks of GPUs by `lading doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lading.core.errors import ExecutionError
from lading.core.gpu_architectures import CUDA, ONEAPI, ROCM
from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.core.gpus.health import fault_of
from lading.process.gpus.inventory import find_devices, list_devices, read_all
from lading.process.gpus.nvidia_smi import find_program
from lading.supervisor.device_edits import find_files

_LOCKS: Final = "run/lading/gpus"
_TOOLS: Final = {
    CUDA: "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    ROCM: "amd-ctk cdi generate --output=/etc/cdi/amd.json",
    ONEAPI: "intel-cdi-specs-generator gpu",
}
"""The programs of makers that write specifications."""


@dataclass(frozen=True)
class GpuVerdict:
    """A finding, and how to mend it; "" where nothing has to be mended."""

    finding: str
    mend: str = ""


def check_gpus(root: Path, *, is_root: bool) -> GpuVerdict:
    """The GPUs of the machine whose directories are below `root`, with what is wrong with them."""
    gpus = find_devices(root)
    if not gpus.devices:
        return _without_devices(root)
    names = ", ".join(f"/dev/{gpu.name}" for gpu in gpus.devices)
    verdicts = [_files_of_driver(root, gpus, stack, is_root) for stack in _stacks(gpus)]
    wrong = [verdict for verdict in (_faults(root, gpus), *verdicts) if verdict.mend]
    if wrong:
        return GpuVerdict(f"{names}{wrong[0].finding}", wrong[0].mend)
    return GpuVerdict(f"{names}{''.join(verdict.finding for verdict in verdicts)}")


def _without_devices(root: Path) -> GpuVerdict:
    """A machine without device files: the driver may not be loaded."""
    if find_program(root) is not None:
        return GpuVerdict("none, but nvidia-smi is installed", "modprobe nvidia; nvidia-smi")
    if "kfd" in list_devices(root):
        finding = "none, but /dev/kfd is there without a render node"
        return GpuVerdict(finding, "modprobe amdgpu; ls /dev/dri")
    return GpuVerdict("none")


def _faults(root: Path, gpus: GpuDevices) -> GpuVerdict:
    """The first GPU that is out of service, by its file or its readings."""
    readings = read_all(root, gpus)
    for gpu in gpus.devices:
        path = root / _LOCKS / gpu.fault_file
        reading = readings.get(gpu.name)
        reason = fault_of(reading) if reading is not None else ""
        if path.exists():
            mend = f"repair or reset it, then: rm /{_LOCKS}/{gpu.fault_file}"
            finding = reason or "it failed by the kernel's log"
            return GpuVerdict(f"; {gpu.name} is out of service: {finding}", mend)
        if reason:
            return GpuVerdict(f"; {gpu.name}: {reason}", f"nvidia-smi --gpu-reset -i {gpu.number}")
        if reading is not None and reading.is_divided and not gpu.instance:
            finding = f"; {gpu.name} is divided (MIG), and no specification names its instances"
            return GpuVerdict(finding, _TOOLS[CUDA])
    return GpuVerdict("")


def _files_of_driver(root: Path, gpus: GpuDevices, stack: str, is_root: bool) -> GpuVerdict:
    """Whether containers get the files of the driver of one maker."""
    mend = f"{'' if is_root else 'sudo '}{_TOOLS[stack]}"
    own: list[GpuDevice] = [gpu for gpu in gpus.devices if gpu.stack == stack]
    try:
        files = find_files(root, gpus, own)
    except ExecutionError as error:
        return GpuVerdict(f": {error.message}", mend)
    if files.notes:
        return GpuVerdict(f"; {files.notes[0]}", mend)
    if stack == CUDA and not files.has_driver:
        finding = ", and no libcuda.so.1 of a driver: images must bring its libraries"
        return GpuVerdict(finding, f"install the driver of NVIDIA, then: {mend}")
    return GpuVerdict(f", with {len(files.binds)} files of their driver" if files.binds else "")


def _stacks(gpus: GpuDevices) -> list[str]:
    return sorted({gpu.stack for gpu in gpus.devices})
