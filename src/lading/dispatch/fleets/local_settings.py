"""The settings of the supervisors of this machine, from the configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading.core.containers.disk_space import Amount
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu
from lading.dispatch.capacity import measure, memory_of_others
from lading.dispatch.fleet import FleetSite
from lading.dispatch.gpu_watch import GpuWatch
from lading.process.telemetry import read_format, read_level

WORKER = "this machine"
_MACHINE = "/run/lading"
# Fewest forked supervisors kept ready on a machine with few processors.
_LEAST_IDLE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings of the supervisors of this machine.

    `command` starts the forkserver; `--fd N --run DIRECTORY` is appended. `template` holds the
    fields of every assignment but `container_uuid`, `supervisor_token` and `run_directory`. Times
    are seconds.
    """

    command: Sequence[str]
    run_directory: Path
    template: Mapping[str, object]
    capacity: Resources
    partitions: frozenset[str] = frozenset()
    gpus: GpuWatch | None = None
    """The GPUs of this machine; None without any."""
    # Seconds between two looks at them, each of which may run a program.
    gpu_interval: float = 30.0
    shares: Path | None = None
    """Directory in which the dispatchers of this machine share its capacity; None: this one has it
    alone.
    """
    # Seconds between two looks at the shares of the other dispatchers of this machine.
    share_interval: float = 0.5
    reserve: Amount = Amount()
    """Free space of the run directory's disk that is kept for records and blocks."""
    # Seconds between two looks at the free space of the disk: statvfs, which costs microseconds.
    disk_interval: float = 1.0
    others: Callable[[int], int] | None = None
    """Bytes of RAM that other programs of the machine use, by those that containers have reserved;
    None: they do not count, as the RAM for containers is configured.
    """
    internet_fault: Callable[[], str] = lambda: ""
    """Reason why containers here have no internet now, with the mend, or ""."""
    price: float = 0.0
    """Dollars an hour."""
    most_idle: int = 4
    """Supervisors that may save results beside those whose containers take the capacity."""
    most_preparing: int = 4
    """Supervisors that may fetch inputs and unpack images beside those."""
    # Seconds for the forkserver to import everything and answer.
    ready_timeout: float = 60.0
    # Seconds for the answer to a start: a fork, or the hand-over to an idle worker.
    start_timeout: float = 30.0
    # Seconds for a clean-up: it may remove a large tree and wait for a container engine.
    clean_timeout: float = 120.0
    # Seconds for the forkserver to end by itself; then it is killed. Supervisors continue.
    stop_timeout: float = 5.0
    # Seconds between restarts of the forkserver: at once after one crash, rarely when it cannot
    # start at all.
    restart_first: float = 0.05
    restart_longest: float = 5.0


def local_settings(site: FleetSite) -> LocalSettings:
    """The settings of the fleet of this machine, from the configuration."""
    local = site.config.Local
    way: dict[str, object] = {"api_socket": site.api_socket}
    if not site.api_socket:
        way = {"api_url": site.api_url, "api_ca_file": site.certificate_path}
    configured = Gpu(
        driver=local.GPUDriverVersion, targets=tuple(local.GPUHardwareTargets), vram=local.GPUMemory
    )
    root = Path(site.config.Containers.DeviceRoot)
    locks = Path(local.ShareDirectory or _MACHINE) / "gpus"
    gpus = GpuWatch(root, locks=locks, visible=local.VisibleGPUs, configured=configured)
    gpu_count = local.GPUs if local.GPUs >= 0 else len(gpus.devices)
    capacity = measure(vcpus=local.VCPUs, ram=local.RAM, disk=local.Scratch, gpu_count=gpu_count)
    return LocalSettings(
        command=(
            sys.executable,
            "-m",
            "lading.supervisor.process.forkserver",
            "--engine",
            site.config.Containers.RuntimeEngine,
            "--log-level",
            read_level(site.config.SystemLogs.LogLevel),
            "--log-format",
            read_format(site.config.SystemLogs.Format),
        ),
        run_directory=site.run_directory,
        capacity=capacity,
        others=None if local.RAM else lambda reserved: memory_of_others(reserved=reserved),
        internet_fault=site.internet_fault,
        price=local.Price,
        most_idle=max(_LEAST_IDLE, capacity.vcpus),
        most_preparing=local.MaxPreparing,
        gpus=gpus if gpus.devices else None,
        partitions=frozenset(local.Partitions),
        reserve=Amount(site.config.Containers.DiskReserve, site.config.Containers.DiskReserveFiles),
        shares=Path(local.ShareDirectory) if local.ShareDirectory else None,
        template={
            **site.template,
            **way,
            "cache_directory": str(site.cache_directory),
            "device_directory": str(locks),
            "visible_gpus": local.VisibleGPUs,
            "gpus": msgspec.to_builtins(gpus.devices),
            "instance_type": _describe(capacity, price=local.Price),
            "preemption": local.Preemption,
        },
    )


def _describe(capacity: Resources, *, price: float) -> dict[str, object]:
    """This machine as an instance type, by which containers are charged; nothing when it is
    free.
    """
    if price <= 0:
        return {}
    return {"Name": WORKER, "VCPUs": capacity.vcpus, "RAM": capacity.ram, "Price": price}
