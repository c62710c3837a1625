"""The section on batch systems."""

from __future__ import annotations

from lading.config.site import load
from lading.core.resources import GIB


def test_values_are_read_and_not_exported() -> None:
    batch = {"System": "gridengine", "NodeScratch": "1GiB", "AccountingDelay": "2m"}
    config = load(overrides={"Containers": {"Dispatcher": "batch", "Batch": batch}})
    assert config.Containers.Batch.NodeScratch == GIB
    assert config.Containers.Batch.AccountingDelay == 120.0
