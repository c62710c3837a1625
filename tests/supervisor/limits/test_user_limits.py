"""How limits are enforced for an ordinary user."""

from __future__ import annotations

import pytest

from lading.supervisor.limits.user_limits import UserLimits, can_count, describe


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (UserLimits(), ""),
        (
            UserLimits(ram=64 << 20),
            "limits of the container: ram of 64.0 MiB by samples and kill",
        ),
        (
            UserLimits(ram=1 << 30, vcpus=2, processes=9),
            "limits of the container: ram of 1.0 GiB by samples and kill, 9 processes by"
            " RLIMIT_NPROC, 2 vcpus not at all",
        ),
        (
            UserLimits(vcpus=1, processes=9, can_count=False),
            "limits of the container: 9 processes not at all, 1 vcpus not at all",
        ),
        (
            UserLimits(vcpus=1, by_kernel=("ram", "processes")),
            "limits of the container: ram and processes by a delegated control group,"
            " 1 vcpus not at all",
        ),
    ],
)
def test_the_log_says_how_each_limit_is_enforced(limits: UserLimits, sentence: str) -> None:
    assert limits.sentence() == sentence


def test_a_kernel_that_counts_all_processes_of_a_user_limits_none() -> None:
    assert UserLimits(processes=9).nproc == 9
    assert UserLimits(processes=9, can_count=False).nproc == 0


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


@pytest.mark.parametrize(
    ("release", "counts"),
    [("6.1.0-18-amd64", True), ("5.14.0", True), ("5.13.19", False), ("4.18.0-553.el8", False)],
)
def test_kernels_that_count_by_namespace(release: str, counts: bool) -> None:
    assert can_count(release) is counts
