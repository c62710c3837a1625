"""The configuration of the dispatcher of one machine.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key
from lading.core.resources import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The dispatcher of this machine."""

    VCPUs: int = key(
        0, "Virtual CPUs offered to containers; 0 asks the machine and its cgroup.", private=True
    )
    RAM: int = key(
        0,
        "RAM offered to containers; 0 asks the machine and its cgroup.",
        private=True,
        unit="bytes",
    )
    Price: float = key(
        0.0,
        "Dollars an hour of this machine; each container pays for its share of it.",
        private=True,
    )
    Preemption: str = key(
        "",
        "`ec2`, `azure` or `google`: look for notices that the cloud takes this machine away.",
        private=True,
    )
    MaxContainers: int = key(0, "Most containers at a time; 0 is as many as fit.", private=True)
    BackfillLimit: float = key(
        600.0,
        "Time for which containers of unknown run time may start on room that is kept for one which"
        " came first and needs more; 0: never. Those that end before it can start always may.",
        private=True,
        unit="seconds",
    )
    MaxPreparing: int = key(
        4,
        "Containers whose images are unpacked and inputs fetched beside those that take VCPUs;"
        " further ones take their VCPUs meanwhile.",
        private=True,
    )
    IdleShutdown: float = key(
        1800.0,
        "Time after which a site that a command has started in the background ends: nothing runs,"
        " waits or is transferred, and no client calls or listens; 0: never.",
        private=True,
        unit="seconds",
    )
    PollInterval: float = key(
        10.0, "Time between two full looks at the queue.", private=True, unit="seconds"
    )
    GPUs: int = key(
        -1, "GPUs offered to containers at a time; -1 is all that they may use.", private=True
    )
    VisibleGPUs: str = key(
        "",
        "GPUs that containers may use: numbers such as `0,2`, device files, uuids or their"
        " beginnings, names of instances; empty: all of the machine.",
        private=True,
    )
    GPUDriverVersion: str = key(
        "", "CUDA or ROCm version of the driver; empty: not compared.", private=True
    )
    GPUHardwareTargets: list[str] = key(
        [],
        "CUDA capability of the GPUs, such as `8.6`, or their architectures, such as `gfx90a`;"
        " empty: asked of the ROCm driver, else not compared.",
        private=True,
    )
    GPUMemory: int = key(
        0,
        "Memory of each GPU; 0: asked of the ROCm driver, else not compared.",
        private=True,
        unit="bytes",
    )
    Scratch: int = key(
        0,
        "Disk that the tmp mounts, images and caches of all containers share; 0 is not planned.",
        private=True,
        unit="bytes",
    )
    ShareDirectory: str = key(
        "",
        "Directory, such as /run/lading, through which the dispatchers of one machine share its"
        " capacity; empty: this one has it alone.",
        private=True,
    )
    Partitions: list[str] = key(
        [],
        "Partitions that this machine is in; containers that name others stay queued.",
        private=True,
    )
    CacheSize: int = key(
        20 * GIB,
        "Disk for each of: inputs laid out as files, image layers,"
        " blocks of inputs that are read through FUSE.",
        private=True,
        unit="bytes",
    )
    LargeInput: int = key(
        1 * GIB,
        "Size from which an input is read through FUSE as it is needed, not laid out on disk first;"
        " 0: none is.",
        private=True,
        unit="bytes",
    )
