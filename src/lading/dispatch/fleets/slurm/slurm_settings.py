"""Settings of the fleet of a Slurm cluster, from the configuration."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from lading.core.scheduling.slurm_nice import DEFAULT_SPREAD
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.slurm.job_script import (
    DEFAULT_ARGUMENTS,
    JobSite,
    Templates,
)
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus, gpu_types


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of the Slurm fleet. Times are seconds.

    `token` is the uuid of the dispatcher's token: jobs are marked with it. `most_waiting`:
    containers handed to Slurm that have not started. `array_size`: most containers in one job
    array, 1 for none.
    """

    token: str
    site: JobSite
    templates: Templates = field(default_factory=Templates)
    gpu_types: SlurmGpus = NO_TYPES
    poll_period: float = 2.0
    # Seconds between two calls of `sinfo`: shapes of nodes change by hand, not by jobs.
    sinfo_period: float = 10.0
    # Seconds between two looks at the nodes.
    node_period: float = 15.0
    # Seconds between two looks at the directory of the completion hooks: one listing of a directory
    # that is nearly always empty.
    hook_period: float = 0.1
    # Seconds between two looks at a Slurm that answers slowly or not at all.
    longest_pause: float = 30.0
    # Seconds for the removal of the files of a dead supervisor, as far as this machine sees them.
    clean_timeout: float = 30.0
    spread: int = DEFAULT_SPREAD
    # Slurm sorts all pending jobs in each cycle of its scheduler (default `MaxJobCount` 10,000).
    most_waiting: int = 1000
    array_size: int = 1

    @property
    def patience(self) -> float:
        """Seconds for which a submission waits for a Slurm that does not answer."""
        return 4.0 * self.longest_pause

    def pause_after(self, took: float, *, failures: int) -> float:
        """Seconds between two looks: as many as the last one took, twice as many for each failure
        in a row.
        """
        longest = max(self.longest_pause, self.poll_period)
        # Doubling stops at 2 ** 16: by then the longest pause applies, and the power cannot
        # overflow.
        return min(max(self.poll_period, took) * 2.0 ** min(failures, 16), longest)


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
