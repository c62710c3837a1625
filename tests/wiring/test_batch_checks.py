"""Checks of a batch system."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.site import load
from lading.testing.played_scheduler import PlayedScheduler
from lading.wiring.batch_checks import configured_system, examine_batch
from tests.simulation.gridengine_mouth import GridEngineMouth
from tests.simulation.pbs_mouth import PbsMouth
from tests.simulation.slurm_mouth import SlurmMouth


async def verdicts(
    scheduler: PlayedScheduler, *, dispatcher: str = "batch", **batch: str
) -> dict[str, tuple[str, str]]:
    config = load(overrides={"Containers": {"Dispatcher": dispatcher, "Batch": batch}})
    mouths = {"gridengine": GridEngineMouth, "pbs": PbsMouth}
    mouth = SlurmMouth if dispatcher == "slurm" else mouths[batch.get("System", "gridengine")]
    system = configured_system(config, run=mouth(scheduler))
    checks = await examine_batch(config, system)
    return {check.name: (str(check.verdict), check.finding) for check in checks}


async def test_a_site_that_is_well(tmp_path: Path) -> None:
    shared = {"SecretDirectory": str(tmp_path / "s"), "HookDirectory": str(tmp_path)}
    checks = await verdicts(PlayedScheduler(), **shared)
    assert {verdict for verdict, _ in checks.values()} == {"ok"}
    assert "Grid Engine answers; 0 jobs of" in checks["queue"][1]
    assert checks["nodes"][1].startswith("Grid Engine nodes of 16 VCPUs")


@pytest.mark.parametrize("dispatcher", ["batch", "slurm"])
async def test_a_controller_that_is_away(dispatcher: str) -> None:
    checks = await verdicts(PlayedScheduler(is_down=True), dispatcher=dispatcher)
    assert (checks["queue"][0], checks["nodes"][0]) == ("missing", "missing")
    assert checks["hooks"][0] == "warning"


async def test_a_system_whose_scripts_are_private_needs_no_secrets() -> None:
    assert (await verdicts(PlayedScheduler(), System="pbs"))["secrets"][0] == "ok"


async def test_directories_that_do_not_serve(tmp_path: Path) -> None:
    assert (await verdicts(PlayedScheduler()))["secrets"][0] == "missing"
    tmp_path.chmod(0o755)
    shared = {"SecretDirectory": str(tmp_path), "HookDirectory": str(tmp_path / "gone")}
    checks = await verdicts(PlayedScheduler(), **shared)
    assert checks["secrets"] == ("missing", f"{tmp_path}: others may read it")
    assert checks["hooks"][0] == "missing"
    (tmp_path / "file").touch()
    checks = await verdicts(PlayedScheduler(), SecretDirectory=str(tmp_path / "file" / "x"))
    assert "Not a directory" in checks["secrets"][1]
