"""CDI devices of GPUs: which of a specification are those of device files, and a specification for
a machine that has none.

A device of a specification is found by its device nodes, since makers name devices by number or by
uuid. Of several with the same GPU one that is no part of it (MIG) is meant, and of these the one
with the fewest nodes: others are that GPU with another one.

Makers' hooks make links to libraries and write the loader's cache in the container. Lading mounts
each library at all names by which the machine's loader knows it instead, and in the directories
that loaders of all images search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lading.core.containers.cdi.devices import CdiDevices
from lading.core.containers.cdi.specification import (
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
)
from lading.core.gpu_architectures import CUDA, ROCM

KINDS: Final[Mapping[str, str]] = MappingProxyType({CUDA: "nvidia.com/gpu", ROCM: "amd.com/gpu"})
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
PROGRAMS: Final = ("/usr/bin/nvidia-smi",)
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")
# Work of NVIDIA's hooks that mounts at all names do, or that changes nothing in a container that
# may not make device files.
_DONE: Final = frozenset(
    {"create-symlinks", "update-ldcache", "chmod", "disable-device-node-modification"}
)


def device_names(devices: CdiDevices, kind: str, nodes: Sequence[str]) -> tuple[str, ...]:
    """The qualified names of the devices that are the GPUs with these nodes, such as /dev/nvidia0,
    in their order; () where one of them has none.
    """
    names: list[str] = []
    for node in nodes:
        candidates = [
            (any(path.startswith(_PARTS) for path in paths), len(paths), name)
            for name, (file, device) in sorted(devices.devices.items())
            if file.specification.kind == kind
            and node
            in (
                paths := [device_node.source for device_node in device.container_edits.device_nodes]
            )
        ]
        if not candidates:
            return ()
        names.append(min(candidates)[-1])
    return tuple(names)


def generated(
    kind: str,
    numbers: Mapping[int, str],
    *,
    shared: Collection[str],
    libraries: Iterable[tuple[str, str]],
    programs: Collection[str],
) -> CdiSpecification | None:
    """A specification of GPUs from what a machine has; None without any.

    `numbers` has the node of each GPU, `shared` the nodes that all need, `libraries` are names and
    paths of the loader's cache, `programs` paths of the driver's programs.
    """
    if not numbers:
        return None
    paths = [path for name, path in libraries if _is_of_driver(name)] if kind == KINDS[CUDA] else []
    files = [*dict.fromkeys([*paths, *(programs if paths else ())])]
    return CdiSpecification(
        cdi_version="0.5.0",
        kind=kind,
        devices=tuple(
            CdiDevice(
                name=str(number),
                container_edits=ContainerEdits(device_nodes=(DeviceNode(path=node),)),
            )
            for number, node in sorted(numbers.items())
        ),
        container_edits=ContainerEdits(
            device_nodes=tuple(DeviceNode(path=node) for node in shared),
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
