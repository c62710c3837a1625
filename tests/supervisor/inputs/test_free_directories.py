"""Mounts that are made only where the image has no files."""

from __future__ import annotations

from pathlib import Path

from lading.supervisor.engines import Bind
from lading.supervisor.inputs.free_directories import settle


def binds(tmp_path: Path) -> tuple[Bind, ...]:
    data = tmp_path / "data"
    for name in ("a", "sub/b", "used/c", "own/x"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    return (
        Bind(str(data), "/data", False),
        Bind("/else", "/data/own", False),
        Bind("/out", "/out", False),
    )


def test_a_free_place_gets_the_directory(tmp_path: Path) -> None:
    known = binds(tmp_path)
    assert settle(known, {"/data"}, lambda _: False) == known


def test_an_occupied_place_gets_the_entries_one_by_one(tmp_path: Path) -> None:
    found = settle(binds(tmp_path), {"/data"}, {"/data", "/data/used"}.__contains__)
    data = tmp_path / "data"
    assert [(bind.source, bind.target) for bind in found] == [
        (f"{data}/a", "/data/a"),
        (f"{data}/sub", "/data/sub"),
        (f"{data}/used/c", "/data/used/c"),
        ("/else", "/data/own"),
        ("/out", "/out"),
    ]


def test_other_binds_stay_as_they_are(tmp_path: Path) -> None:
    known = binds(tmp_path)
    assert settle(known, (), lambda _: True) == known
