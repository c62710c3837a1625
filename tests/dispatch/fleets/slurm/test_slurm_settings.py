from __future__ import annotations

from pathlib import Path

from lading.config.site import load
from lading.core.resources import Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.slurm.slurm_settings import slurm_settings
from lading.testing.containers import TOKEN
from tests.dispatch.fleets.slurm.test_slurm_fleet import ONE


def test_the_fleet_follows_the_configuration(tmp_path: Path) -> None:
    config = load(
        overrides={
            "Containers": {
                "ReserveExtraRAM": "1MiB",
                "SLURM": {"SbatchArgumentsList": ["-c%C"], "PollPeriod": 3, "VCPUPrice": 0.5},
            }
        }
    )
    site = FleetSite(
        config=config,
        token=TOKEN,
        run_directory=tmp_path,
        cache_directory=tmp_path,
        template={},
        api_url="https://x",
    )
    made = slurm_settings(site)
    assert made.templates.fill(ONE, TrackedContainer(uuid=ONE, need=Resources(2)))[2:] == ["-c2"]
    assert (made.poll_period, made.array_size, made.site.template["api_url"]) == (
        3.0,
        1,
        "https://x",
    )
    assert made.site.template["instance_type"] == {"Name": "Slurm", "VCPUs": 1, "Price": 0.5}
