from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers.container import Container
from lading.core.scheduling.resumption import can_be_resumed
from lading.core.values import JsonObject

UUID = "zzzzz-dz642-000000000000001"
GPU = {"device_count": 1, "driver_version": "11.0", "hardware_capability": "9.0"}


def test_a_plain_container_can_be_resumed() -> None:
    mounts: JsonObject = {"/out": {"kind": "tmp"}, "/in": {"kind": "collection"}, "/odd": None}
    assert can_be_resumed(Container(uuid=UUID, mounts=mounts))


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduling_parameters": {"nodes": 2}},
        {"steps": [{"command": ["true"]}]},
        {"service": True},
        {"published_ports": {"80": {"access": "private"}}},
        {"runtime_constraints": {"API": True}},
        {"runtime_constraints": {"internet": True}},
        {"runtime_constraints": {"gpu": {"stack": "cuda", **GPU}}},
        {"mounts": {"/live": {"kind": "live", "root": "lab"}}},
    ],
)
def test_a_container_that_needs_its_supervisor_cannot(changes: dict[str, Any]) -> None:
    assert not can_be_resumed(Container(uuid=UUID, **changes))
