"""The trial whether an ordinary user may run the native engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lading.core.user_ids import Extent
from lading.supervisor import rootless, rootless_trial
from lading.supervisor.rootless import RootKind
from lading.supervisor.rootless_trial import (
    RootlessTrial,
    attempt,
    mend_namespaces,
    read_setting,
    try_for_user,
    try_ids,
    try_in_child,
)
from lading.supervisor.subordinate_ids import FoundIds, IdMap


@pytest.mark.parametrize(
    ("settings", "mend"),
    [
        ({}, ""),
        ({"user/max_user_namespaces": "63000\n"}, ""),
        ({"user/max_user_namespaces": "0\n"}, "sudo sysctl user.max_user_namespaces=15000"),
        (
            {"kernel/unprivileged_userns_clone": "0\n"},
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1\n"},
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_a_setting_that_forbids_namespaces_is_told_with_its_remedy(
    settings: Mapping[str, str], mend: str
) -> None:
    assert mend_namespaces(lambda name: settings.get(name, "")) == mend


def test_a_setting_that_a_kernel_lacks_is_empty() -> None:
    assert read_setting("kernel/no_such_setting") == ""
    assert read_setting("kernel/ostype") == "Linux\n"


def test_a_program_that_cannot_try_is_told(tmp_path: Path) -> None:
    assert "cannot be tried" in try_for_user(tmp_path / "later", program="/bin/false").fault
    assert "cannot be tried" in try_for_user(tmp_path, program="/none").fault


def test_hidden_files_of_proc_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless_trial, "mount_points", lambda: ["/proc/kcore"])
    trial = attempt(tmp_path)
    assert "parts of /proc are hidden here" in trial.fault
    assert trial.mend


@pytest.mark.parametrize(
    ("overlay", "programs", "kind"),
    [
        ("", {}, RootKind.OVERLAY),
        ("Invalid argument", {}, RootKind.COPY),
        ("Invalid argument", {"fuse-overlayfs": "/bin/x"}, RootKind.FUSE_OVERLAY),
    ],
)
def test_what_a_machine_has_instead_of_an_overlay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    overlay: str,
    programs: Mapping[str, str],
    kind: RootKind,
) -> None:
    monkeypatch.setattr(rootless_trial, "mount_points", list)
    monkeypatch.setattr(rootless, "enter", lambda place: None)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    ids = FoundIds(IdMap((Extent(1, 5, 2),), (Extent(1, 7, 2),)))
    trial = attempt(
        tmp_path,
        which=programs.get,
        try_overlay=lambda place: overlay,
        find_subordinate=lambda place: ids,
    )
    assert trial == RootlessTrial(root_kind=kind, overlay_fault=overlay, ids=ids)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_of_the_kernel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(place))

    monkeypatch.setattr(rootless_trial, "mount_points", list)
    monkeypatch.setattr(rootless, "enter", refuse)
    assert attempt(tmp_path, find_subordinate=lambda place: FoundIds()).fault == (
        "this user may make no user namespaces (Operation not permitted)"
    )


def test_a_directory_that_cannot_be_written_is_told() -> None:
    assert attempt(Path("/proc/self")).fault.startswith("/proc/self: ")


def test_a_child_tells_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rootless_trial, "attempt", lambda directory: RootlessTrial(fault=str(directory))
    )
    assert try_in_child(tmp_path) == RootlessTrial(fault=str(tmp_path))


def test_ids_that_cannot_be_mapped_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = FoundIds(fault="none", mend="sudo x")
    assert try_ids(tmp_path, find=lambda user: refused) == refused
    ids = FoundIds(IdMap((Extent(1, 5, 2),), (Extent(1, 7, 2),)))

    def fail(place: Path, *, ids: IdMap) -> None:
        raise OSError("newuidmap: write to uid_map failed")

    monkeypatch.setattr(rootless, "enter", fail)
    found = try_ids(tmp_path, find=lambda user: ids)
    assert found.fault == "subordinate ids cannot be mapped: newuidmap: write to uid_map failed"
    assert found.ids == IdMap()
    monkeypatch.setattr(rootless, "enter", lambda place, ids: None)
    assert try_ids(tmp_path, find=lambda user: ids) == ids
