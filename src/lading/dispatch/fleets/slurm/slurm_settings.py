"""Settings of the fleet of a Slurm cluster, from the configuration."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from lading.core.scheduling.slurm_nice import DEFAULT_SPREAD
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.slurm.sbatch_arguments import DEFAULT_ARGUMENTS, Templates
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus, gpu_types


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings(BatchSettings):
    """Settings of the Slurm fleet. `spread`: distance of the nice values of waiting jobs."""

    templates: Templates = field(default_factory=Templates)
    gpu_types: SlurmGpus = NO_TYPES
    spread: int = DEFAULT_SPREAD
    # Seconds between two looks at the nodes.
    node_period: float = 15.0


def slurm_settings(site: FleetSite) -> SlurmSettings:
    """The settings of the fleet of a Slurm cluster, from the configuration."""
    containers = site.config.Containers
    slurm = containers.SLURM
    templates = Templates(
        arguments=slurm.SbatchArgumentsList or DEFAULT_ARGUMENTS,
        gpu_arguments=slurm.SbatchGPUArgumentsList,
        extra_ram=containers.ReserveExtraRAM,
    )
    nodes = JobSite(
        directory=slurm.NodeDirectory,
        command=slurm.SupervisorCommand or (sys.executable, "-m", "lading.supervisor"),
        template={
            **site.template,
            "api_url": site.api_url,
            "instance_type": {"Name": "Slurm", "VCPUs": 1, "Price": slurm.VCPUPrice}
            if slurm.VCPUPrice > 0
            else {},
            "preemption": slurm.Preemption,
            "dispatcher_classifies": True,
        },
        certificate=site.certificate,
        environment=slurm.SbatchEnvironmentVariables,
        hooks=slurm.HookDirectory,
    )
    return SlurmSettings(
        token=site.token,
        site=nodes,
        templates=templates,
        gpu_types=gpu_types(slurm.GPUTypes),
        poll_period=slurm.PollPeriod,
        spread=slurm.PrioritySpread,
        most_waiting=slurm.MaxWaitingJobs,
        array_size=slurm.MaxJobArraySize,
    )
