"""The fleet of the configured batch system."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.dispatch.fleet import FleetSite, find_fleet
from lading.dispatch.fleets.batch_adapters.opening import batch_settings, batch_system, open_batch
from lading.testing.containers import TOKEN
from lading.testing.played_scheduler import PlayedScheduler
from tests.simulation.gridengine_mouth import GridEngineMouth


def site(tmp_path: Path, **batch: object) -> FleetSite:
    return FleetSite(
        config=load(overrides={"Containers": {"Batch": batch}}),
        token=TOKEN,
        run_directory=tmp_path,
        cache_directory=tmp_path,
        template={},
        api_url="https://x",
    )


def test_the_fleet_is_installed() -> None:
    assert find_fleet("batch") is open_batch


def test_the_fleet_follows_the_configuration(tmp_path: Path) -> None:
    here = site(tmp_path, PollPeriod=3, VCPUPrice=0.5, SecretDirectory=str(tmp_path / "s"))
    open_batch(here)
    system = batch_system(
        here.config.Containers.Batch, run=GridEngineMouth(PlayedScheduler()), user="ann"
    )
    settings = batch_settings(here, system)
    assert (settings.poll_period, settings.site.secrets) == (3.0, str(tmp_path / "s"))
    assert settings.site.template["instance_type"] == {
        "Name": "Grid Engine",
        "VCPUs": 1,
        "Price": 0.5,
    }


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"System": "moab"}, "'moab'; it must be one of gridengine, pbs"),
        ({"Arguments": ["-x %X"]}, "%X in '-x %X' is unknown"),
        ({}, "SecretDirectory: Grid Engine keeps job scripts"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    tmp_path: Path, batch: dict[str, object], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        open_batch(site(tmp_path, **batch))
