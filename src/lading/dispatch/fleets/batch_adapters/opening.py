"""The fleet of the batch system that the configuration names (`Containers.Batch.System`)."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from lading.config.batch import BatchSite
from lading.core.errors import Invalid
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.batch.argument_templates import ArgumentTemplates
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.batch_system import BatchSystem
from lading.dispatch.fleets.batch.job_script import JobSite
from lading.dispatch.fleets.batch.programs import ProgramRunner, run_program
from lading.dispatch.fleets.batch_adapters import gridengine_system, pbs_system

_GPU_RESOURCES: Final = MappingProxyType({"gridengine": "gpu", "pbs": "ngpus"})
_Adapter = Callable[[BatchSite, ArgumentTemplates, ProgramRunner, str], BatchSystem]


def open_batch(site: FleetSite) -> BatchFleet:
    """The fleet of a batch system, from the configuration. Raises Invalid for an unknown system, a
    template that cannot be filled, and a missing directory for secrets.
    """
    batch = site.config.Containers.Batch
    system = batch_system(
        batch,
        run=run_program,
        user=getpass.getuser(),
        extra_ram=site.config.Containers.ReserveExtraRAM,
    )
    if not system.dialect.is_private and not batch.SecretDirectory:
        raise Invalid(
            f"Containers.Batch.SecretDirectory: {system.name} keeps job scripts where every user of"
            " a node reads them; name a directory that the nodes share and that only the"
            " dispatcher's user reads"
        )
    return BatchFleet(batch_settings(site, system), system)


def batch_system(
    batch: BatchSite, *, run: ProgramRunner, user: str, extra_ram: int = 0
) -> BatchSystem:
    """The adapter of the configured batch system; `user` is that whose jobs are the dispatcher's.
    Raises Invalid.
    """
    adapter = _ADAPTERS.get(batch.System)
    if adapter is None:
        raise Invalid(
            f"Containers.Batch.System: {batch.System!r}; it must be one of {', '.join(_ADAPTERS)}"
        )
    arguments, gpu_arguments, make = adapter
    gpus = batch.GPUResource or _GPU_RESOURCES[batch.System]
    templates = ArgumentTemplates(
        arguments=[
            argument.replace("{environment}", batch.ParallelEnvironment)
            for argument in batch.Arguments or arguments
        ],
        gpu_arguments=[
            argument.replace("{gpus}", gpus) for argument in batch.GPUArguments or gpu_arguments
        ],
        extra_ram=extra_ram,
        gpu_resource=gpus,
    )
    templates.check()
    return make(batch, templates, run, user)


def batch_settings(site: FleetSite, system: BatchSystem) -> BatchSettings:
    """The settings of the batch fleet, from the configuration."""
    batch = site.config.Containers.Batch
    instance_type = {"Name": system.name, "VCPUs": 1, "Price": batch.VCPUPrice}
    nodes = JobSite(
        directory=batch.NodeDirectory,
        command=batch.SupervisorCommand or (sys.executable, "-m", "lading.supervisor"),
        template={
            **site.template,
            "api_url": site.api_url,
            "instance_type": instance_type if batch.VCPUPrice > 0 else {},
            "dispatcher_classifies": True,
        },
        certificate=site.certificate,
        environment=batch.EnvironmentVariables,
        hooks=batch.HookDirectory,
        secrets=batch.SecretDirectory,
    )
    return BatchSettings(
        token=site.token,
        site=nodes,
        poll_period=batch.PollPeriod,
        most_waiting=batch.MaxWaitingJobs,
    )


def _grid_engine(
    batch: BatchSite, templates: ArgumentTemplates, run: ProgramRunner, user: str
) -> BatchSystem:
    return gridengine_system.GridEngine(
        run,
        templates,
        user=user,
        timeout=batch.CommandTimeout,
        scratch=batch.NodeScratch,
        gpus=batch.GPUResource or _GPU_RESOURCES[batch.System],
        accounting_delay=batch.AccountingDelay,
    )


def _pbs(
    batch: BatchSite, templates: ArgumentTemplates, run: ProgramRunner, user: str
) -> BatchSystem:
    return pbs_system.Pbs(
        run,
        templates,
        user=user,
        timeout=batch.CommandTimeout,
        scratch=batch.NodeScratch,
        gpus=batch.GPUResource or _GPU_RESOURCES[batch.System],
        accounting_delay=batch.AccountingDelay,
    )


_ADAPTERS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], _Adapter]]] = (
    MappingProxyType(
        {
            "gridengine": (
                gridengine_system.ARGUMENTS,
                gridengine_system.GPU_ARGUMENTS,
                _grid_engine,
            ),
            "pbs": (pbs_system.PBS_ARGUMENTS, pbs_system.PBS_GPU_ARGUMENTS, _pbs),
        }
    )
)
