"""The control group that systemd delegates to a user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.limits.delegation import (
    SERVING,
    find_delegated,
    mend_delegation,
    take_delegated,
)

_OWN = "0::/user.slice/lading.scope\n"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    made = tmp_path / "user.slice" / "lading.scope"
    made.mkdir(parents=True)
    (made / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (made / "cgroup.subtree_control").touch()
    (made / "cgroup.procs").touch()
    return made


def mounts(place: Path) -> str:
    return f"proc /proc proc rw 0 0\ncgroup2 {place} cgroup2 rw,nsdelegate 0 0\n"


@pytest.mark.parametrize("own", [_OWN, f"0::/user.slice/lading.scope/{SERVING}\n"])
def test_its_controllers_limit_containers(tmp_path: Path, group: Path, own: str) -> None:
    found = take_delegated(mounts(tmp_path), own, is_delegated=lambda path: path == group)
    assert found is not None
    assert (found.version, dict(found.roots)) == (
        2,
        dict.fromkeys(("cpu", "memory", "pids"), group),
    )
    assert (group / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (group / SERVING).is_dir()


def test_processes_move_below(tmp_path: Path, group: Path) -> None:
    # A file keeps its lines, so that the group never becomes empty here.
    (group / "cgroup.procs").write_text("17\n")
    assert take_delegated(mounts(tmp_path), _OWN, is_delegated=lambda path: True) is None
    assert (group / SERVING / "cgroup.procs").read_text() == "17"
    assert (group / "cgroup.subtree_control").read_text() == ""


@pytest.mark.parametrize(
    ("table", "own", "controllers"),
    [
        ("cgroup {0} cgroup rw,memory 0 0\ncgroup2 {0} cgroup2 rw 0 0\n", _OWN, "memory"),
        ("proc /proc proc rw 0 0\n", _OWN, "memory"),
        ("cgroup2 {0} cgroup2 rw 0 0\n", "1:name=systemd:/\n", "memory"),
        ("cgroup2 {0} cgroup2 rw 0 0\n", _OWN, "hugetlb"),
    ],
)
def test_machines_without_a_group_of_the_user(
    tmp_path: Path, group: Path, table: str, own: str, controllers: str
) -> None:
    (group / "cgroup.controllers").write_text(controllers)
    text = table.format(tmp_path)
    assert take_delegated(text, own, is_delegated=lambda path: True) is None


def test_a_group_without_the_mark_is_left_alone(tmp_path: Path, group: Path) -> None:
    assert take_delegated(mounts(tmp_path), _OWN) is None
    assert not (group / SERVING).exists()


@pytest.mark.parametrize(("answer", "is_delegated"), [("yes", True), ("no", False)])
def test_the_manager_of_a_user_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_delegated: bool
) -> None:
    own = f"/user.slice/user-{os.geteuid()}.slice/user@{os.geteuid()}.service/app.slice/run-1.scope"
    group = tmp_path / own.lstrip("/")
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\n[ "$6" = run-1.scope ] && echo {answer}\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    controllers = find_delegated(mounts(tmp_path), f"0::{own}\n")
    assert bool(controllers) is is_delegated


def test_a_group_that_refuses_is_not_delegated(tmp_path: Path, group: Path) -> None:
    (group / SERVING).write_text("")
    assert take_delegated(mounts(tmp_path), _OWN, is_delegated=lambda path: True) is None


def test_finding_the_controllers_changes_nothing(tmp_path: Path, group: Path) -> None:
    found = find_delegated(mounts(tmp_path), _OWN, is_delegated=lambda path: path == group)
    assert found == ("cpu", "memory", "pids")
    assert not (group / SERVING).exists()
    assert find_delegated(mounts(tmp_path), _OWN) == ()
    assert find_delegated("", _OWN) == ()


@pytest.mark.parametrize(
    ("controllers", "is_unified", "has_systemd", "is_lingering", "mend"),
    [
        (("memory", "cpu", "pids"), True, True, True, ""),
        (("memory", "pids"), True, True, True, "sudo systemctl edit user@.service"),
        ((), True, True, True, "systemd-run --user --scope"),
        ((), True, True, False, "sudo loginctl enable-linger 7; lading down; lading up"),
        ((), False, True, True, "boot with systemd.unified_cgroup_hierarchy=1"),
        ((), True, False, True, "sudo lading up"),
    ],
)
def test_the_command_that_brings_control_groups(
    controllers: tuple[str, ...], is_unified: bool, has_systemd: bool, is_lingering: bool, mend: str
) -> None:
    found = mend_delegation(
        controllers,
        user=7,
        is_unified=is_unified,
        has_systemd=has_systemd,
        is_lingering=is_lingering,
    )
    assert found.startswith(mend)
    assert bool(found) is bool(mend)
