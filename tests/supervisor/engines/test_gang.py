"""What a conductor is told, and what its end means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.core.hpc.gang import FailurePolicy, Launcher
from lading.hpc.plan import read_plan
from lading.supervisor.engines import Bind, ContainerSpec, Exit
from lading.supervisor.engines.gang import COULD_NOT, GangFiles
from lading.supervisor.gang.gang_output import GangOutput

SPEC = ContainerSpec(
    command=("ring",), environment=(("A", "b"),), binds=(Bind("/host/out", "/out", False),),
    vcpus=8, nodes=4, launcher="mpirun", rank_failure="any", output_path="/out", notices=9,
    stop_grace=7.5,
)  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> GangFiles:
    made = GangFiles(tmp_path)
    made.bundle(0).mkdir(parents=True)
    return made


def test_the_conductor_reads_what_is_written(files: GangFiles) -> None:
    merging = files.write_plan("u", SPEC, crun=["crun", "--root", "r"], cwd="/out")
    assert merging == GangOutput(files.spool, "/host/out", 4)
    assert files.spool.stat().st_mode & 0o777 == 0o700
    plan = read_plan(files.plan)
    assert (plan.name, plan.command, plan.environment, plan.cwd) == (
        "u",
        ("ring",),
        (("A", "b"),),
        "/out",
    )
    assert (plan.slots, plan.spool, plan.launcher, plan.policy) == (
        2,
        str(files.spool),
        Launcher.MPIRUN,
        FailurePolicy.ANY,
    )
    assert plan.stop_grace == 7.5
    assert plan.bundles == tuple(str(files.bundle(rank)) for rank in range(4))
    assert files.plan.stat().st_mode & 0o777 == 0o600
    assert files.command()[-2:] == ["lading.hpc.conductor", str(files.plan)]


def test_rank_0_is_entered(files: GangFiles) -> None:
    assert files.entered("u") == ("u-0", files.bundle(0))


def test_an_output_that_ranks_cannot_share_is_refused(files: GangFiles) -> None:
    with pytest.raises(ExecutionError, match="needs an output directory"):
        files.write_plan(
            "u", ContainerSpec(command=("x",), nodes=2, output_path="/other"), crun=[], cwd="/"
        )


def test_why_nothing_was_run_is_told(files: GangFiles) -> None:
    assert files.ended(COULD_NOT, stopped=False) == Exit(code=COULD_NOT)
    files.fault.write_text('{"fault":"the network cannot be made","failure":"node"}')
    assert files.ended(3, stopped=False) == Exit(code=3)
    with pytest.raises(ExecutionError, match="the network cannot be made") as caught:
        files.ended(COULD_NOT, stopped=False)
    assert caught.value.failure is Failure.NODE


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        ("executable file `init` not found in $PATH: No such file or directory", Failure.IMAGE),
        ("exec format error", Failure.IMAGE),
        ("unable to find user ghost: no matching entries in passwd file", Failure.IMAGE),
        ("openat2 `x`: Too many levels of symbolic links", Failure.IMAGE),
        ("the cgroup is gone", Failure.NODE),
    ],
)
def test_a_first_process_that_cannot_be_started_is_the_image_s_fault(
    files: GangFiles, said: str, failure: Failure
) -> None:
    told = {"fault": f"rank 0: its container cannot be made: {said}", "failure": "node"}
    files.fault.write_text(json.dumps(told))
    with pytest.raises(ExecutionError) as caught:
        files.ended(COULD_NOT, stopped=False)
    assert caught.value.failure is failure


def test_a_conductor_that_is_killed_takes_its_gang_with_it(files: GangFiles) -> None:
    assert "ended by signal 9" in files.ended(-9, stopped=False).lost
    assert files.ended(-9, stopped=True) == Exit(code=137)
    assert files.ended(-9, stopped=False, out_of_memory=True) == Exit(code=137, out_of_memory=True)
