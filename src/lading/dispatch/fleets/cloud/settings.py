"""The settings of the fleet of VMs, read from the configuration and checked at the start.

An invalid setting is refused with its key, its value and the allowed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lading.config.fleets import CloudVMs
from lading.config.instance_types import InstanceTypeSettings, instance_types
from lading.config.site import Config
from lading.core.errors import Invalid
from lading.core.scheduling.cloud_limits import Limits, Pressure
from lading.core.scheduling.instance_lifecycle import InstanceTimes
from lading.core.scheduling.instance_types import InstanceType, check_types
from lading.dispatch.capacity import measure
from lading.dispatch.fleets.cloud.ssh_connection import SECRET_PATH

_POSITIVE = (
    "ProbeInterval", "SyncInterval", "TimeoutIdle", "TimeoutBooting", "TimeoutProbe",
    "TimeoutShutdown", "TimeoutSignal", "TimeoutTERM", "PollInterval",
    "MaxConcurrentInstanceCreateOps",
)  # fmt: skip
_NOT_NEGATIVE = (
    "InitialQuotaEstimate", "MaxInstances", "MaxRunningContainersPerInstance", "MaxProbesPerSecond",
    "MaxCloudOpsPerSecond",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """Settings for the creation, supervision and removal of VMs. Times are seconds.

    `directory` is the directory of Lading on a VM; `template` has the fields of every assignment
    without those of one container and one VM.
    """

    types: tuple[InstanceType, ...]
    set_id: str
    template: Mapping[str, object] = field(default_factory=dict)
    directory: str = "/var/lib/lading"
    image: str = ""
    prefix: str = "Arvados"
    resource_tags: Mapping[str, str] = field(default_factory=dict)
    init_command: str = ""
    probe_command: str = "true"
    deploy_key: bool = True
    ssh_port: int = 22
    limits: Limits = Limits()
    times: InstanceTimes = InstanceTimes()
    pressure: Pressure = Pressure()
    price_factor: float = 1.5
    supervisor_fraction: float = 0.5
    most_containers: int = 0
    extra_ram: int = 0
    # Seconds between two probes of a VM; `probe_rate` is for all VMs together, in probes a second.
    probe_interval: float = 10.0
    probe_rate: float = 10.0
    # Seconds between two lists of the cloud: clouds charge or throttle lists. While VMs are being
    # created or destroyed their addresses and ends are wanted sooner.
    sync_interval: float = 60.0
    busy_sync_interval: float = 2.0
    # Seconds until a VM that is still listed is asked to go again.
    shutdown_timeout: float = 10.0
    # Calls of the cloud in a second: clouds throttle an account, not a program.
    operation_rate: float = 10.0
    # Seconds for one call. The drivers of libcloud give up in 55, with a better error.
    operation_timeout: float = 60.0
    # One at a time: a refusal of the first, as by the quota, holds for the others too.
    concurrent_creates: int = 1
    misses: int = 4
    """Lists in a row that a VM is missing from before it counts as gone."""

    @property
    def by_name(self) -> Mapping[str, InstanceType]:
        """The instance types by their names in the configuration."""
        return {kind.name: kind for kind in self.types}

    def tag(self, name: str) -> str:
        """The full name of a tag."""
        return f"{self.prefix}{name}"

    def user_data(self, secret: str) -> str:
        """The script for the first start of a VM."""
        return (
            "#!/bin/sh\n"
            f"(umask 0177; printf %s {secret} >{SECRET_PATH}~ && mv {SECRET_PATH}~ {SECRET_PATH})\n"
            f"{self.init_command}\n"
        )


def read(config: Config, *, set_id: str, template: Mapping[str, object]) -> CloudSettings:
    """The settings in the configuration. Raises Invalid naming key, value, allowed values."""
    cloud, containers = config.Containers.CloudVMs, config.Containers
    _check(cloud)
    for name, value in (
        ("MaximumPriceFactor", containers.MaximumPriceFactor),
        ("PreemptiblePriceFactor", containers.PreemptiblePriceFactor),
    ):
        if value < 0:
            raise Invalid(f"configuration: Containers.{name}: {value:g}; it must be 0 or more")
    return CloudSettings(
        types=_types(config),
        set_id=set_id,
        template=template,
        directory=cloud.DeployRunnerDirectory,
        image=cloud.ImageID,
        prefix=cloud.TagKeyPrefix,
        resource_tags=cloud.ResourceTags,
        init_command=cloud.InstanceInitCommand,
        probe_command=cloud.BootProbeCommand or "true",
        deploy_key=cloud.DeployPublicKey,
        ssh_port=_port(cloud.SSHPort),
        limits=Limits(most=cloud.MaxInstances),
        pressure=Pressure(most=cloud.InitialQuotaEstimate),
        times=InstanceTimes(
            idle=cloud.TimeoutIdle, booting=cloud.TimeoutBooting, probe=cloud.TimeoutProbe
        ),
        price_factor=containers.MaximumPriceFactor,
        supervisor_fraction=cloud.SupervisorFraction,
        most_containers=cloud.MaxRunningContainersPerInstance,
        extra_ram=containers.ReserveExtraRAM,
        probe_interval=cloud.ProbeInterval,
        probe_rate=cloud.MaxProbesPerSecond,
        sync_interval=cloud.SyncInterval,
        busy_sync_interval=min(2.0, cloud.SyncInterval),
        shutdown_timeout=cloud.TimeoutShutdown,
        operation_rate=cloud.MaxCloudOpsPerSecond,
        concurrent_creates=cloud.MaxConcurrentInstanceCreateOps,
    )


def _check(cloud: CloudVMs) -> None:
    for name in _POSITIVE:
        _require(name, getattr(cloud, name), least=0, included=False)
    for name in _NOT_NEGATIVE:
        _require(name, getattr(cloud, name), least=0, included=True)
    if not 0 <= cloud.SupervisorFraction <= 1:
        raise _refusal("SupervisorFraction", cloud.SupervisorFraction, "from 0 to 1")
    if not cloud.DeployRunnerDirectory.startswith("/") or " " in cloud.DeployRunnerDirectory:
        raise _refusal(
            "DeployRunnerDirectory", cloud.DeployRunnerDirectory, "an absolute path without spaces"
        )
    if not cloud.TagKeyPrefix.isascii() or any(
        character.isspace() for character in cloud.TagKeyPrefix
    ):
        raise _refusal(
            "TagKeyPrefix", cloud.TagKeyPrefix, "ASCII letters, digits and signs without spaces"
        )


def _require(name: str, value: float, *, least: float, included: bool) -> None:
    if value < least or (value == least and not included):
        raise _refusal(name, value, f"{'at least' if included else 'more than'} {least:g}")


def _refusal(name: str, value: object, allowed: str) -> Invalid:
    return Invalid(f"configuration: Containers.CloudVMs.{name}: {value!r}; it must be {allowed}")


def _port(value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise _refusal("SSHPort", value, "a number from 1 to 65535")
    return int(value)


def _types(config: Config) -> tuple[InstanceType, ...]:
    declared = dict(config.InstanceTypes)
    if config.Containers.CloudVMs.Driver == "loopback" and not declared:
        here = measure()
        declared["localhost"] = InstanceTypeSettings(
            VCPUs=here.vcpus, RAM=here.ram, IncludedScratch=_free_disk(), Price=1.0
        )
    if not declared:
        raise Invalid(
            "configuration: InstanceTypes: there are none;"
            " name at least one with ProviderType, VCPUs, RAM"
        )
    types = instance_types(declared, config.Containers.PreemptiblePriceFactor)
    check_types(types)
    return types


def _free_disk() -> int:
    import shutil

    return shutil.disk_usage(Path("/var/tmp")).free  # noqa: S108 - asked for its size
