"""How limits are enforced for an ordinary user, and for root without control groups."""

from __future__ import annotations

import pytest

from lading.supervisor.limits.limit_ways import (
    DELEGATED,
    OF_ROOT,
    LimitWays,
    can_count,
    describe,
    find_ways,
    lacking,
)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (LimitWays(), ""),
        (
            LimitWays(ram=64 << 20),
            "limits of the container: ram of 64.0 MiB by samples and kill",
        ),
        (
            LimitWays(ram=1 << 30, vcpus=2, processes=9),
            "limits of the container: ram of 1.0 GiB by samples and kill, 9 processes by"
            " RLIMIT_NPROC, 2 vcpus not at all",
        ),
        (
            LimitWays(vcpus=1, processes=9, can_count=False),
            "limits of the container: 9 processes not at all, 1 vcpus not at all",
        ),
        (
            LimitWays(vcpus=1, by_kernel=("ram", "processes")),
            "limits of the container: ram and processes by a delegated control group,"
            " 1 vcpus not at all",
        ),
        (LimitWays(by_kernel=("ram", "vcpus"), group=OF_ROOT), ""),
        (
            LimitWays(ram=64 << 20, vcpus=2, group=OF_ROOT, by_kernel=("processes",)),
            "limits of the container: processes by a control group, ram of 64.0 MiB by samples"
            " and kill, 2 vcpus not at all",
        ),
        (
            LimitWays(ram=64 << 20, can_sample=False, group=OF_ROOT),
            "limits of the container: ram of 64.0 MiB not at all",
        ),
    ],
)
def test_the_log_says_how_each_limit_is_enforced(limits: LimitWays, sentence: str) -> None:
    assert limits.sentence() == sentence


def test_a_kernel_that_counts_all_processes_of_a_user_limits_none() -> None:
    assert LimitWays(processes=9).nproc == 9
    assert LimitWays(processes=9, can_count=False).nproc == 0


def test_delegated_controllers_limit_by_the_kernel() -> None:
    group = "by a delegated control group"
    assert describe(("memory", "pids"), can_count=False) == (
        f"ram {group}, processes {group}, vcpus not at all, disk by samples and kill"
    )
    assert describe((), can_count=True) == (
        "ram by samples and kill, processes by RLIMIT_NPROC, vcpus not at all,"
        " disk by samples and kill"
    )
    assert "processes not at all" in describe((), can_count=False)


def test_root_is_told_of_its_own_control_groups() -> None:
    assert describe(("cpu", "pids"), can_count=True, group=OF_ROOT) == (
        "ram by samples and kill, processes by a control group, vcpus by a control group"
    )


def test_a_limit_without_its_controller_has_another_way() -> None:
    ways = find_ways(
        ram=1 << 30, vcpus=2, processes=0, enforced=("cpu",), group=DELEGATED, can_count=True
    )
    assert ways == LimitWays(ram=1 << 30, by_kernel=("vcpus",), group=DELEGATED)
    assert ways.sampled_ram == 1 << 30


def test_nobody_samples_the_ranks_of_a_gang() -> None:
    assert LimitWays(ram=1 << 30, can_sample=False).sampled_ram == 0


def test_controllers_of_limits_that_are_lacking() -> None:
    assert lacking(("pids", "io")) == ["memory", "cpu"]


@pytest.mark.parametrize(
    ("release", "counts"),
    [("6.1.0-18-amd64", True), ("5.14.0", True), ("5.13.19", False), ("4.18.0-553.el8", False)],
)
def test_kernels_that_count_by_namespace(release: str, counts: bool) -> None:
    assert can_count(release) is counts
