"""The scope of a user's systemd in which Lading serves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from lading.supervisor.limits.user_scope import UserScope, enter_scope

_SESSION = "0::/user.slice/user-7.slice/session-1.scope\n"
_PROGRAM = ["python", "-m", "lading", "up"]


@pytest.fixture
def machine(tmp_path: Path) -> UserScope:
    """A machine with systemd and version 2 alone, on which the user 7 lingers."""
    hierarchy = tmp_path / "sys/fs/cgroup"
    manager = hierarchy / "user.slice/user-7.slice/user@7.service"
    for directory in (manager, tmp_path / "run/user/7/systemd", tmp_path / "proc/self"):
        directory.mkdir(parents=True)
    lingering = tmp_path / "var/lib/systemd/linger"
    lingering.mkdir(parents=True)
    (lingering / "ann").touch()
    (hierarchy / "cgroup.controllers").write_text("cpu io memory pids\n")
    (manager / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "proc/self/cgroup").write_text(_SESSION)
    (tmp_path / "proc/mounts").write_text(f"cgroup2 {hierarchy} cgroup2 rw 0 0\n")
    return UserScope(
        user=7,
        root=tmp_path,
        environ={},
        name_of=lambda user: "ann" if user == 7 else "",
        which=lambda name: f"/bin/{name}",
        can_start=lambda environ: environ["XDG_RUNTIME_DIR"] == "/run/user/7",
    )


def test_a_lingering_user_serves_in_a_scope(machine: UserScope) -> None:
    command = machine.command(_PROGRAM)
    assert command[:3] == ["systemd-run", "--user", "--scope"]
    assert command[-5:] == ["--", *_PROGRAM]
    assert machine.controllers() == ("cpu", "memory", "pids")


@pytest.mark.parametrize(
    "changes",
    [
        {"user": 0},
        # The containers would end with the last login of this user.
        {"name_of": lambda user: "bob"},
        {"which": lambda name: None},
        {"can_start": lambda environ: False},
    ],
)
def test_others_get_none(machine: UserScope, changes: dict[str, Any]) -> None:
    scope = dataclasses.replace(machine, **changes)
    assert scope.command(_PROGRAM) == []
    assert scope.controllers() == ()


@pytest.mark.parametrize("own", ["0::/system.slice/lading.service\n", "0::/\n"])
def test_a_service_stays_in_its_group(machine: UserScope, own: str) -> None:
    (machine.root / "proc/self/cgroup").write_text(own)
    assert machine.command(_PROGRAM) == []


def test_a_process_enters_once(machine: UserScope) -> None:
    scope = dataclasses.replace(machine, environ={"LADING_IN_SCOPE": "1"})
    assert scope.command(_PROGRAM) == []


def test_a_delegated_group_is_enough(machine: UserScope) -> None:
    group = machine.root / "sys/fs/cgroup/user.slice/user-7.slice/session-1.scope"
    group.mkdir()
    (group / "cgroup.controllers").write_text("memory pids\n")
    scope = dataclasses.replace(machine, is_delegated=lambda path: path == group)
    assert scope.command(_PROGRAM) == []


def test_services_do_not_get_the_mark_of_the_scope() -> None:
    environ = {"LADING_IN_SCOPE": "1", "LANG": "C"}
    enter_scope(_PROGRAM, environ)
    assert environ == {"LANG": "C"}
