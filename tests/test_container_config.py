"""Configuration of containers: its sections inside sections."""

from __future__ import annotations

import pytest

from lading import config
from lading.core.errors import Invalid


def test_sections_inside_sections() -> None:
    found = config.load(
        None,
        {"Containers": {"SLURM": {"PollPeriod": "3s", "SbatchEnvironmentVariables": {"A": "b"}}}},
    )
    assert found.Containers.SLURM.PollPeriod == 3.0
    assert found.Containers.SLURM.SbatchEnvironmentVariables == {"A": "b"}
    with pytest.raises(Invalid, match=r"unknown key Containers\.SLURM\.Nope"):
        config.load(None, {"Containers": {"SLURM": {"Nope": 1}}})
