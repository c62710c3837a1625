"""Fleets are found by name."""

from __future__ import annotations

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.dispatch.fleet import find_fleet, plans_disk
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import open_kubernetes
from lading.dispatch.fleets.local import open_local
from lading.dispatch.fleets.slurm.slurm_fleet import open_slurm


def test_the_installed_ones() -> None:
    assert find_fleet("local") is open_local
    assert find_fleet("slurm") is open_slurm
    assert find_fleet("kubernetes") is open_kubernetes
    installed = "there are batch, cloud, kubernetes, local, slurm"
    with pytest.raises(Invalid, match=f"no fleet 'nowhere' is installed; {installed}"):
        find_fleet("nowhere")


def test_disk_is_planned_where_it_is_known() -> None:
    assert plans_disk("slurm", load())
    assert not plans_disk("local", load())
    assert plans_disk("local", load(overrides={"Local": {"Scratch": "1GiB"}}))
