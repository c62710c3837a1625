"""The configuration of the kinds of cloud VMs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lading.config.sections import key, section
from lading.core.containers.gpu_words import STACKS
from lading.core.errors import Invalid
from lading.core.gpus.models import read_model
from lading.core.resources import Resources
from lading.core.scheduling.instance_types import Gpu, InstanceType, with_preemptible


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUSettings:
    """The GPUs of an instance type."""

    Stack: str = key("", "`cuda`, `rocm` or `oneapi`; empty: that of the model.")
    Model: str = key("", "Model, such as `a100`, which tells what other keys leave out.")
    DriverVersion: str = key("", "Version of the driver, such as 12.2.")
    HardwareTarget: list[str] = key([], "Compute capabilities (`cuda`) or architectures (`rocm`).")
    DeviceCount: int = key(0, "Number of GPUs.")
    VRAM: int = key(0, "Memory of each.", unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeSettings:
    """One kind of VM, by a name of your own."""

    ProviderType: str = key("", "Its name in the cloud; empty: the same.")
    VCPUs: int = key(0, "Virtual CPUs.")
    RAM: int = key(0, "RAM.", unit="bytes")
    IncludedScratch: int = key(0, "Disk that it has for files that containers write.", unit="bytes")
    AddedScratch: int = key(0, "Further disk that is asked for with it.", unit="bytes")
    Price: float = key(0.0, "Dollars an hour.")
    Preemptible: bool = key(
        False, "The cloud may take it back; only for containers that allow that."
    )
    GPU: GPUSettings = section(GPUSettings)


def instance_types(
    declared: Mapping[str, InstanceTypeSettings], preemptible_factor: float
) -> tuple[InstanceType, ...]:
    """The instance types of a configuration, with preemptible twins if a factor of their price is
    configured. Raises Invalid.
    """
    return with_preemptible(
        [_instance_type(name, settings) for name, settings in declared.items()], preemptible_factor
    )


def _instance_type(name: str, settings: InstanceTypeSettings) -> InstanceType:
    model = read_model(settings.GPU.Model)
    gpu = Gpu(
        stack=settings.GPU.Stack or model.stack,
        count=settings.GPU.DeviceCount,
        driver=settings.GPU.DriverVersion,
        targets=tuple(dict.fromkeys((*settings.GPU.HardwareTarget, *model.kinds))),
        vram=settings.GPU.VRAM or model.memory,
    )
    if gpu.count and gpu.stack not in STACKS:
        raise Invalid(
            f"configuration: InstanceTypes.{name}.GPU.Stack: {gpu.stack!r}; it must be one of "
            f"{', '.join(STACKS)}"
        )
    return InstanceType(
        name=name,
        provider_type=settings.ProviderType or name,
        resources=Resources(
            settings.VCPUs,
            settings.RAM,
            settings.IncludedScratch + settings.AddedScratch,
            gpu.count,
        ),
        price=settings.Price,
        preemptible=settings.Preemptible,
        gpu=gpu,
        added=settings.AddedScratch,
    )
