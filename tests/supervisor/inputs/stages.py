"""Plans of mounts, carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lading.core.containers.mounting.mount_plan import MountPlan, plan
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.staging import Stage


def planned(tmp_path: Path, mounts: dict[str, Any]) -> MountPlan:
    given = {"/out": {"kind": "tmp"}, **mounts}
    return plan(given, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s"))


async def staged(
    tmp_path: Path, inputs: Inputs, mounts: dict[str, Any], *, memory: bool = False
) -> Stage:
    stage = Stage(planned(tmp_path, mounts))
    await stage.set(inputs, memory=memory)
    return stage
