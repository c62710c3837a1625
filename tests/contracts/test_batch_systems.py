"""Every adapter of a batch system keeps to `lading.testing.conformance.batch_systems`."""

from __future__ import annotations

import pytest

from lading.config.batch import BatchSite
from lading.dispatch.fleets.batch.batch_system import BatchSystem
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_system import SlurmSystem
from lading.testing.conformance.batch_systems import BatchSystemSuite
from lading.testing.played_scheduler import OWN_USER, PlayedScheduler
from tests.simulation.batch_scenario import MOUTHS
from tests.simulation.slurm_mouth import SlurmMouth


@pytest.fixture
def scheduler() -> PlayedScheduler:
    return PlayedScheduler()


@pytest.fixture(params=["slurm", *MOUTHS])
def system(request: pytest.FixtureRequest, scheduler: PlayedScheduler) -> BatchSystem:
    if request.param == "slurm":
        return SlurmSystem(Slurm(SlurmMouth(scheduler), timeout=30.0, users=(OWN_USER,)))
    programs = MOUTHS[request.param](scheduler)
    return batch_system(BatchSite(System=request.param), run=programs, user=OWN_USER)


class TestBatchSystems(BatchSystemSuite):
    """The suite on each adapter."""
