"""Arguments of sbatch."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.slurm.sbatch_arguments import Templates
from lading.dispatch.fleets.slurm.slurm_gpus import JobGpus

UUID = "zzzzz-dz642-000000000000001"
SMALL = TrackedContainer(uuid=UUID, need=Resources(2, 250_000_000, 3 * MIB))


def test_the_usual_arguments() -> None:
    container = TrackedContainer(
        uuid=UUID, need=Resources(2, 250_000_000, 3 * MIB), partitions=("a", "b"), max_run_time=61
    )
    assert Templates(extra_ram=550 * MIB).fill(UUID, container) == [
        "--nice=10000", "--no-requeue", f"--job-name={UUID}", "--mem=789", "--cpus-per-task=2",
        "--tmp=3", "--partition=a,b", "--time=2",
    ]  # fmt: skip


def test_a_gang_is_one_job_of_as_many_tasks() -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(8, 400 * MIB), nodes=4)
    filled = Templates(arguments=("--mem=%M", "--cpus-per-task=%C")).fill(UUID, container)
    assert filled[2:] == ["--mem=400", "--cpus-per-task=2", "--nodes=1", "--ntasks=4"]


def test_a_gang_that_no_node_holds_has_a_node_for_each_task() -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(8, 400 * MIB), nodes=4)
    filled = Templates(arguments=("--mem=%M", "--cpus-per-task=%C"), extra_ram=MIB).fill(
        UUID, container, spread=True
    )
    assert filled[2:] == [
        "--mem=101",
        "--cpus-per-task=2",
        "--nodes=4",
        "--ntasks=4",
        "--ntasks-per-node=1",
    ]


def test_what_a_container_does_not_have_is_left_out_whole() -> None:
    filled = Templates(
        arguments=("-p%P", "-t%W", "--constraint=instancetype=%I", "-c%C", "50%%")
    ).fill(UUID, SMALL)
    assert filled == ["--nice=10000", "--no-requeue", "-c2", "50%"]


def test_gpus_have_arguments_of_their_own() -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(1, 1, gpus=2))
    assert Templates(arguments=("-C%I",)).fill(UUID, container, instance_type="big")[2:] == [
        "-Cbig",
        "--gpus=2",
    ]


@pytest.mark.parametrize("argument", ["--x=%X", "50%"])
def test_an_unknown_letter_is_refused(argument: str) -> None:
    with pytest.raises(Invalid, match="is unknown; use %U"):
        Templates(arguments=(argument,)).check()
    Templates().check()


def test_the_users_that_arguments_name() -> None:
    assert Templates().users() == ()
    named = Templates(arguments=("--uid=ann", "--mem=%M"), gpu_arguments=("--uid", "7"))
    assert named.users() == ("ann", "7")


def test_a_gang_that_shares_processors_is_one_task_of_a_node() -> None:
    container = TrackedContainer(
        uuid=UUID, need=Resources(2, 400 * MIB), nodes=4, shares_vcpus=True
    )
    templates = Templates(arguments=("--cpus-per-task=%C",))
    assert templates.fill(UUID, container)[2:] == [
        "--cpus-per-task=2",
        "--nodes=1",
        "--ntasks=1",
    ]
    assert templates.fill(UUID, container, spread=True)[2] == "--cpus-per-task=1"


def test_a_type_of_gpus_or_features_of_nodes_are_named() -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(1, 1, gpus=2))
    templates = Templates(arguments=(), gpu_arguments=("--gres=gpu:%G",))
    assert templates.fill(UUID, container, gpus=JobGpus(type="a100"))[2:] == ["--gres=gpu:a100:2"]
    chosen = JobGpus(features=("a", "h"))
    assert templates.fill(UUID, container, gpus=chosen)[2:] == [
        "--gres=gpu:2", "--constraint=a|h",
    ]  # fmt: skip
