"""The GPUs of this machine: device files, instances, and what the driver and the kernel tell of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from lading.core.containers.cdi.gpus import find_instances
from lading.core.gpu_architectures import CUDA, ROCM
from lading.core.gpus.devices import (
    GpuDevice,
    GpuDevices,
    find_gpus,
    rocm_target,
    with_instances,
)
from lading.core.gpus.models import read_model
from lading.core.gpus.readings import (
    GpuReading,
    read_bus,
    read_information,
    read_kernel_values,
)
from lading.process.gpus.cdi_files import read_devices
from lading.process.gpus.nvidia_smi import query_cuda_version, query_gpus

_INFORMATION: Final = "proc/driver/nvidia/gpus"
_TOPOLOGY: Final = "sys/class/kfd/kfd/topology/nodes"
_KERNEL_FILES: Final = (
    "mem_info_vram_total", "mem_info_vram_used", "gpu_busy_percent", "unique_id",
    "lmem_total_bytes", "product_name",
)  # fmt: skip
_MOST_BYTES: Final = 4096


def list_devices(root: Path) -> list[str]:
    """Names of the files in /dev and /dev/dri, relative to /dev."""
    devices = root / "dev"
    return [str(path.relative_to(devices)) for path in (*devices.glob("*"), *devices.glob("dri/*"))]


def find_devices(root: Path) -> GpuDevices:
    """The GPUs of the machine whose directories are below `root`, with what files tell of them. No
    program is run.
    """
    gpus = find_gpus(list_devices(root), _makers(root))
    if not gpus.devices:
        return gpus
    information = _informations(root)
    described = tuple(_described(root, gpu, information) for gpu in gpus.devices)
    gpus = structs.replace(gpus, devices=described)
    if any(gpu.stack == CUDA for gpu in described):
        specifications, _ = read_devices(root)
        gpus = with_instances(gpus, find_instances(specifications))
    return gpus


def find_machine(root: Path) -> tuple[GpuDevices, Mapping[str, GpuReading]]:
    """The GPUs with what the driver tells of them too, and their readings by name."""
    gpus = find_devices(root)
    readings = read_all(root, gpus)
    driver = query_cuda_version(root) if any(gpu.stack == CUDA for gpu in gpus.devices) else ""
    devices = tuple(
        _with_reading(gpu, readings.get(gpu.name, GpuReading()), driver) for gpu in gpus.devices
    )
    return structs.replace(gpus, devices=devices), readings


def read_all(root: Path, gpus: GpuDevices) -> Mapping[str, GpuReading]:
    """The readings of GPUs by their names, of an instance those of its GPU. GPUs that do not answer
    are left out.
    """
    nvidia = [gpu for gpu in gpus.devices if gpu.stack == CUDA]
    readings = dict(match_readings(nvidia, query_gpus(root) if nvidia else ()))
    for gpu in gpus.devices:
        if gpu.stack != CUDA:
            readings[gpu.name] = read_kernel_values(_kernel_values(root, gpu))
    return readings


def match_readings(
    gpus: Sequence[GpuDevice], readings: Sequence[GpuReading]
) -> Iterator[tuple[str, GpuReading]]:
    """Names of GPUs with their readings: by uuid or address, else in their order if they are as
    many.
    """
    numbers = sorted({gpu.number for gpu in gpus})
    for gpu in gpus:
        exact = [
            reading
            for reading in readings
            if (gpu.bus and reading.bus == gpu.bus)
            or (not gpu.instance and gpu.uuid and reading.uuid == gpu.uuid)
        ]
        if exact:
            yield gpu.name, exact[0]
        elif not gpu.bus and len(numbers) == len(readings):
            yield gpu.name, readings[numbers.index(gpu.number)]


def _with_reading(gpu: GpuDevice, reading: GpuReading, driver: str) -> GpuDevice:
    if gpu.stack != CUDA:
        return gpu
    kinds = gpu.kinds if gpu.instance else read_model(reading.model).kinds or gpu.kinds
    return structs.replace(
        gpu,
        uuid=gpu.uuid or ("" if gpu.instance else reading.uuid),
        bus=gpu.bus or reading.bus,
        kinds=tuple(dict.fromkeys(filter(None, (reading.capability, *kinds)))),
        memory=gpu.memory or (0 if gpu.instance else reading.memory),
        driver=driver,
    )


def _makers(root: Path) -> dict[str, str]:
    """The PCI numbers of the makers of render nodes, by device file."""
    return {
        f"dri/{path.name}": maker
        for path in (root / "sys/class/drm").glob("renderD*")
        if (maker := _read(path / "device/vendor"))
    }


def _described(
    root: Path, gpu: GpuDevice, information: Mapping[int, Mapping[str, str]]
) -> GpuDevice:
    """A GPU with what the files of the kernel tell of it."""
    if gpu.stack == CUDA:
        values = information.get(gpu.number, {})
        return structs.replace(
            gpu,
            uuid=values.get("GPU UUID", ""),
            bus=read_bus(values.get("Bus Location", "")),
            kinds=read_model(values.get("Model", "")).kinds,
        )
    reading = read_kernel_values(_kernel_values(root, gpu))
    kinds = (
        *(_rocm_kinds(root, gpu) if gpu.stack == ROCM else ()),
        *read_model(reading.model).kinds,
    )
    kinds = tuple(dict.fromkeys(kinds))
    return structs.replace(gpu, uuid=reading.uuid, kinds=kinds, memory=reading.memory)


def _informations(root: Path) -> dict[int, Mapping[str, str]]:
    """Facts about GPUs from the driver of NVIDIA, by the numbers of their device files."""
    texts = (_read(path) for path in (root / _INFORMATION).glob("*/information"))
    informations = map(read_information, texts)
    return {
        int(values["Device Minor"]): values
        for values in informations
        if values.get("Device Minor", "").isdecimal()
    }


def _rocm_kinds(root: Path, gpu: GpuDevice) -> tuple[str, ...]:
    """The architecture of a GPU of AMD: that of its node of the compute driver, or where nodes do
    not name their device files, of all GPUs.
    """
    nodes = [
        dict(line.split(" ", 1) for line in _read(path).splitlines() if " " in line)
        for path in sorted((root / _TOPOLOGY).glob("*/properties"))
    ]
    nodes = [node for node in nodes if node.get("gfx_target_version", "0").strip("0")]
    own = [
        node
        for node in nodes
        if node.get("drm_render_minor", "") == gpu.device.removeprefix("dri/renderD")
    ]
    return tuple(sorted({rocm_target(int(node["gfx_target_version"])) for node in own or nodes}))


def _kernel_values(root: Path, gpu: GpuDevice) -> dict[str, str]:
    folder = root / "sys/class/drm" / gpu.device.rpartition("/")[2] / "device"
    values = {name: _read(folder / name) for name in _KERNEL_FILES}
    values |= {f"ras/{path.name}": _read(path) for path in folder.glob("ras/*_err_count")}
    return values


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
