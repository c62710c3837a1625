"""Subordinate ids of an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lading.core.user_ids import Extent
from lading.supervisor.subordinate_ids import FoundIds, IdMap, IdMapper, find_ids

_BOTH = {"newuidmap": "/bin/newuidmap", "newgidmap": "/bin/newgidmap"}
_FILES = {"/etc/subuid": "ann:100:50\n", "/etc/subgid": "ann:200:20\n1000:300:20\n"}
_IDS = IdMap((Extent(1, 100, 50),), (Extent(1, 200, 20), Extent(21, 300, 20)))


def find(programs: Mapping[str, str], files: Mapping[str, str], name: str = "ann") -> FoundIds:
    return find_ids(
        1000,
        which=programs.get,
        read=lambda path: files.get(path, ""),
        name_of=lambda user: name,
    )


def test_a_user_has_as_many_users_as_groups() -> None:
    found = find(_BOTH, _FILES)
    assert found == FoundIds(IdMap((Extent(1, 100, 40),), _IDS.groups))
    assert found.ids.count == 41


@pytest.mark.parametrize(
    ("programs", "files", "name", "fault", "mend"),
    [
        ({"newuidmap": "x"}, _FILES, "ann", "not installed", "sudo apt install uidmap"),
        (_BOTH, {"/etc/subuid": "ann:1:2"}, "ann", "has no range for ann", "sudo usermod"),
        (_BOTH, _FILES, "", "user id 1000 has no account", ""),
    ],
)
def test_why_there_are_none(
    programs: Mapping[str, str], files: Mapping[str, str], name: str, fault: str, mend: str
) -> None:
    found = find(programs, files, name)
    assert fault in found.fault
    assert found.mend.startswith(mend)
    assert found.ids.count == 1


def programs(place: Path, script: str) -> None:
    for name in _BOTH:
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)


def test_both_programs_get_the_process_and_its_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, f'echo "$(basename $0) $@" >> {tmp_path}/told')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with IdMapper(_IDS) as mapper:
        assert not (tmp_path / "told").exists()
        mapper.map()
    assert (tmp_path / "told").read_text().splitlines() == [
        f"newuidmap {os.getpid()} 0 {os.geteuid()} 1 1 100 50",
        f"newgidmap {os.getpid()} 0 {os.getegid()} 1 1 200 20 21 300 20",
    ]


def test_a_refusal_is_told_and_nothing_is_mapped_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, f"echo newuidmap: not allowed >&2; echo x > {tmp_path}/ran; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with IdMapper(_IDS):
        pass
    assert not (tmp_path / "ran").exists()
    with IdMapper(_IDS) as mapper, pytest.raises(OSError, match="newuidmap: not allowed"):
        mapper.map()
