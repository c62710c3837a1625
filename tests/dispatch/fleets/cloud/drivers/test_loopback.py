from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from lading.core.errors import Invalid
from lading.dispatch.fleets.cloud.drivers.driver import DriverSite
from lading.dispatch.fleets.cloud.drivers.loopback import LoopbackDriver, open_loopback
from lading.dispatch.fleets.cloud.drivers.namespace_machines import Machines


def site(tmp_path: Path, **parameters: object) -> DriverSite:
    return DriverSite(parameters=parameters, tag="T", set_id="s", directory=tmp_path)


async def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        Invalid, match=r"DriverParameters\.Subnet: 'here'; it must be a network such as"
    ):
        async with open_loopback(site(tmp_path, Subnet="here")):
            pass
    with pytest.raises(
        Invalid, match=r"unknown key .*DriverParameters\.Net; known here: Bridge, Subnet"
    ):
        async with open_loopback(site(tmp_path, Net="here")):
            pass
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Invalid, match="need root"):
        async with open_loopback(site(tmp_path)):
            pass


class Consoles:
    """Machines of which only the consoles are read."""

    def console(self, id: str) -> str:
        return f"the console of {id}"


async def test_the_console_of_a_machine() -> None:
    driver = LoopbackDriver(cast(Machines, Consoles()), tag="T", set_id="s")
    assert await driver.console("vm-1") == "the console of vm-1"
