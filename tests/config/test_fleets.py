"""The sections on Slurm, Kubernetes and cloud VMs."""

from __future__ import annotations

import pytest

from lading.config.site import load
from lading.core.errors import Invalid


def test_each_fleet_has_a_section_of_the_containers() -> None:
    config = load(
        None,
        {
            "Containers": {
                "SLURM": {"PollPeriod": "3s", "SbatchEnvironmentVariables": {"A": "b"}},
                "Kubernetes": {"Nodes": {"small": {"VCPUs": 2}}},
                "CloudVMs": {"MaxInstances": 3, "TimeoutIdle": "2m"},
            }
        },
    )
    assert config.Containers.SLURM.PollPeriod == 3.0
    assert config.Containers.SLURM.SbatchEnvironmentVariables == {"A": "b"}
    assert config.Containers.Kubernetes.Nodes == {"small": {"VCPUs": 2}}
    assert config.Containers.CloudVMs.MaxInstances == 3
    assert config.Containers.CloudVMs.TimeoutIdle == 120.0


@pytest.mark.parametrize("fleet", ["SLURM", "Kubernetes", "CloudVMs"])
def test_an_unknown_key_is_named(fleet: str) -> None:
    with pytest.raises(Invalid, match=rf"unknown key Containers\.{fleet}\.Nope"):
        load(None, {"Containers": {fleet: {"Nope": 1}}})
