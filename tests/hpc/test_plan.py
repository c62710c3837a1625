"""What the conductor is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.hpc.gang import FailurePolicy, Launcher
from lading.hpc.plan import ClusterPlan, read_plan

PLAN = ClusterPlan(
    name="u", bundles=("/b/0",), crun=("crun",), command=("ring",), environment=(("A", "b"),),
    cwd="/out", output_path="/out", spool="/s", fault="/f", slots=1, launcher=Launcher.FIRST,
    policy=FailurePolicy.NONE, files={"mesh": "/s/1"},
)  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    PLAN.write(tmp_path / "plan")
    assert read_plan(tmp_path / "plan") == PLAN


@pytest.mark.parametrize("text", ["", "{}", '{"bundles": []}'])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan").write_text(text)
    with pytest.raises((ValueError, KeyError)):
        read_plan(tmp_path / "plan")
