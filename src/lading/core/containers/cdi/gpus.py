"""CDI devices of GPUs: which of a specification are those of device files, and a specification for
a machine that has none.

A device of a specification is found by its device nodes, since makers name devices by number or by
uuid: it is the GPU whose node it has alone. With nodes of capabilities it is an instance of that
GPU (MIG). Of several devices for one GPU that with the fewest nodes is meant.

Makers' hooks make links to libraries and write the loader's cache in the container. Lading mounts
each library at all names by which the machine's loader knows it instead, and in the directories
that loaders of all images search.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import structs

from lading.core.containers.cdi.devices import CdiDevices
from lading.core.containers.cdi.specification import (
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
)
from lading.core.gpu_architectures import CUDA, ONEAPI, ROCM
from lading.core.gpus.devices import GpuDevice
from lading.core.gpus.models import GpuModel, read_model

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {CUDA: "nvidia.com/gpu", ROCM: "amd.com/gpu", ONEAPI: "intel.com/gpu"}
)
"""The kind of the GPUs of a stack."""
_LIBRARIES: Final = (
    "libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-allocator.so",
    "libnvidia-cfg.so", "libnvidia-compiler.so", "libnvidia-encode.so", "libnvidia-gpucomp.so",
    "libnvidia-ml.so", "libnvidia-nvvm.so", "libnvidia-opencl.so", "libnvidia-opticalflow.so",
    "libnvidia-ptxjitcompiler.so",
)  # fmt: skip
"""Names of the driver's libraries, up to their version."""
_PARTS: Final = "/dev/nvidia-caps/"
"""Directory of the device files that parts of a GPU have beside its own."""
_NUMBER, _RENDER = re.compile(r"/dev/nvidia(\d{1,4})"), re.compile(r"/dev/dri/renderD\d{1,4}")
_UUID: Final = "MIG-"
"""Begins the uuid of an instance."""
PROGRAMS: Final = ("/usr/bin/nvidia-smi",)
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")
# Work of NVIDIA's hooks that mounts at all names do, or that changes nothing in a container that
# may not make device files.
_DONE: Final = frozenset(
    {"create-symlinks", "update-ldcache", "chmod", "disable-device-node-modification"}
)


def device_names(devices: CdiDevices, gpus: Sequence[GpuDevice]) -> tuple[str, ...]:
    """The qualified names of the devices that are these GPUs, or instances of GPUs, in their order;
    () where one of them has none.
    """
    names: list[str] = []
    for gpu in gpus:
        node = f"/dev/{gpu.device}"
        capabilities = {f"/dev/{node}" for node in gpu.parts}
        candidates = [
            (len(paths), name)
            for name, paths in _paths_of_kind(devices, KINDS[gpu.stack])
            # A device with several GPUs, such as `all`, is none of them.
            if _whole_nodes(paths, gpu.stack) == {node}
            and _part_nodes(paths) == capabilities
            # Nor is a device with GPUs that its specification gives with each device.
            and _whole_nodes(_shared_nodes(devices, name), gpu.stack) <= {node}
        ]
        if not candidates:
            return ()
        names.append(min(candidates)[-1])
    return tuple(names)


def find_instances(devices: CdiDevices) -> list[GpuDevice]:
    """The instances of GPUs (MIG) of NVIDIA that specifications name, each once: devices with the
    node of one GPU and nodes of capabilities. A kind is known as far as the name or notes of a
    device tell it.
    """
    instances: dict[tuple[str, ...], GpuDevice] = {}
    for name, paths in _paths_of_kind(devices, KINDS[CUDA]):
        whole, parts = _whole_nodes(paths, CUDA), tuple(sorted(_part_nodes(paths)))
        number = _NUMBER.fullmatch(min(whole)) if len(whole) == 1 else None
        if number is None or not parts:
            continue
        instance = GpuDevice(
            int(number[1]),
            f"nvidia{number[1]}",
            parts=tuple(path.removeprefix("/dev/") for path in parts),
        )
        instances[parts] = _named(instances.get(parts, instance), devices, name)
    # A device with all instances of a GPU, such as `all`, is none of them.
    single = [
        parts for parts in sorted(instances) if not any(set(parts) > set(few) for few in instances)
    ]
    return [instances[parts] for parts in single]


def _named(instance: GpuDevice, devices: CdiDevices, name: str) -> GpuDevice:
    """An instance with what a device that is it tells by its name and notes."""
    short = name.partition("=")[2]
    model = _instance_model(devices, name)
    return structs.replace(
        instance,
        uuid=short if short.startswith(_UUID) else instance.uuid,
        # A number is shorter than a uuid, and what people see.
        instance=min(filter(None, (short, instance.instance)), key=len),
        kinds=model.kinds or instance.kinds,
        memory=model.memory or instance.memory,
    )


def _instance_model(devices: CdiDevices, name: str) -> GpuModel:
    """The profile of an instance, such as 1g.10gb, in the notes of its device."""
    notes = devices.devices[name][1].annotations
    models = map(read_model, [*notes.values(), name.partition("=")[2]])
    return next((model for model in models if model.kinds), GpuModel())


def _paths_of_kind(devices: CdiDevices, kind: str) -> Iterator[tuple[str, set[str]]]:
    """The qualified names of the devices of a kind in order, each with its device files."""
    for name, (file, device) in sorted(devices.devices.items()):
        if file.specification.kind == kind:
            yield name, {node.source for node in device.container_edits.device_nodes}


def _shared_nodes(devices: CdiDevices, name: str) -> set[str]:
    """The device files that the specification of a device gives with each of its devices."""
    file, _ = devices.devices[name]
    return {node.source for node in file.specification.container_edits.device_nodes}


def _whole_nodes(paths: Iterable[str], stack: str) -> set[str]:
    """The device files of GPUs. GPUs of NVIDIA have render nodes too."""
    pattern = _NUMBER if stack == CUDA else _RENDER
    return {path for path in paths if pattern.fullmatch(path)}


def _part_nodes(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith(_PARTS)}


def generated(
    kind: str,
    gpus: Sequence[GpuDevice],
    *,
    shared: Collection[str],
    libraries: Iterable[tuple[str, str]],
    programs: Collection[str],
) -> CdiSpecification | None:
    """A specification of GPUs from what a machine has; None without any.

    `gpus` are those of one maker, whole or instances, `shared` the nodes that all need, `libraries`
    are names and paths of the loader's cache, `programs` paths of the driver's programs.
    """
    if not gpus:
        return None
    paths = [path for name, path in libraries if _is_of_driver(name)] if kind == KINDS[CUDA] else []
    files = [*dict.fromkeys([*paths, *(programs if paths else ())])]
    return CdiSpecification(
        cdi_version="0.5.0",
        kind=kind,
        devices=tuple(
            CdiDevice(
                name=gpu.instance or str(gpu.number),
                container_edits=ContainerEdits(
                    device_nodes=tuple(
                        DeviceNode(path=f"/dev/{node}") for node in (gpu.device, *gpu.parts)
                    )
                ),
            )
            for gpu in gpus
        ),
        container_edits=ContainerEdits(
            device_nodes=tuple(DeviceNode(path=f"/dev/{node}") for node in shared),
            mounts=tuple(
                Mount(host_path=path, container_path=path, options=_READ_ONLY) for path in files
            ),
        ),
    )


def all_names(
    mounts: Iterable[tuple[Mount, str]], libraries: Mapping[str, Collection[str]], machine: str
) -> list[tuple[str, str]]:
    """Pairs of source and target: one for each mount, and further ones for each library, because
    a loader looks for it under several names.

    `mounts` has each mount with its file after links are followed; `libraries` has for such a file
    the names in the loader's cache; `machine` is that of `uname`, such as x86_64.
    """
    binds: dict[str, str] = {}
    for mount, file in mounts:
        folder, _, base = mount.container_path.rpartition("/")
        binds[mount.container_path] = file
        if names := libraries.get(file, ()):
            for directory in (folder, "/usr/lib64", f"/usr/lib/{machine}-linux-gnu"):
                for name in (base, *names):
                    binds.setdefault(f"{directory}/{name}", file)
    return [(source, target) for target, source in binds.items()]


def needed_hooks(edits: ContainerEdits) -> tuple[Hook, ...]:
    """The hooks whose work is not done by mounts."""
    return tuple(hook for hook in edits.hooks if _DONE.isdisjoint(hook.args))


def _is_of_driver(name: str) -> bool:
    return name.startswith(_LIBRARIES)
