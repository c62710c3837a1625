from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.opening import open_cloud
from tests.simulation.cloud_scenario import SETTINGS


async def test_a_configuration_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, fake_driver: None
) -> None:
    (tmp_path / "c.yml").write_text(
        "Containers: {CloudVMs: {Driver: moon}}\nInstanceTypes: {a: {VCPUs: 1, RAM: 1GiB}}"
    )
    site = FleetSite(
        config=load(tmp_path / "c.yml"), token="zzzzz-gj3su-000000000000000",
        run_directory=tmp_path / "run", cache_directory=tmp_path / "cache", template={},
        api_url="https://x", certificate="PEM",
    )  # fmt: skip
    with pytest.raises(Invalid, match="'moon' is no installed driver"):
        async with open_cloud(site):
            pass
    assert (tmp_path / "cloud/server.crt").read_text() == "PEM"
    (tmp_path / "c.yml").write_text(
        "Containers: {CloudVMs: {Driver: fake}}\nInstanceTypes: {a: {VCPUs: 1, RAM: 1GiB}}"
    )
    async with open_cloud(replace(site, config=load(tmp_path / "c.yml"))) as fleet:
        while not fleet.view().is_known:
            await fleet.changed()
    assert Instance(id="i").user == "root"
    assert SETTINGS.by_name["type1"].price == 0.1
