"""The fleet of a Slurm cluster: a batch fleet that shows the nodes, too.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from lading.core.errors import LadingError
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.batch.batch_fleet import BatchFleet
from lading.dispatch.fleets.batch.programs import run_program
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_nodes import SlurmNodes
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings, slurm_settings
from lading.dispatch.fleets.slurm.slurm_system import SlurmSystem


def open_slurm(site: FleetSite) -> SlurmFleet:
    """The fleet of a Slurm cluster, from the configuration. Raises Invalid for a template that
    cannot be filled.
    """
    timeout = site.config.Containers.SLURM.CommandTimeout
    settings = slurm_settings(site)
    users = (str(os.geteuid()), *settings.templates.users())
    return SlurmFleet(settings, Slurm(run_program, timeout=timeout, users=users))


class SlurmFleet(BatchFleet):
    """Implements `Fleet`. Use as `async with`: leaving it leaves the jobs in Slurm."""

    def __init__(self, settings: SlurmSettings, slurm: Slurm) -> None:
        settings.templates.check()
        system = SlurmSystem(
            slurm,
            templates=settings.templates,
            gpu_types=settings.gpu_types,
            spread=settings.spread,
        )
        super().__init__(settings, system)
        self._node_period = settings.node_period
        self.machine_source = SlurmNodes(slurm, gpu_types=settings.gpu_types)

    async def watch_nodes(self) -> None:
        """Look at the nodes while Slurm answers; what is seen is shown to people only."""
        while True:
            await self.wait_until_well()
            # The next look tries again.
            with suppress(LadingError):
                await self.machine_source.look()
            await asyncio.sleep(self._node_period)
