from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.limits.container_mounts import (
    added_places,
    layers_of,
    parse_mounts,
    read_table,
    roots_of,
    tables_of,
)


def table(*lines: str) -> str:
    return "\n".join(f"7 1 {line}" for line in lines)


ROOT = "0:44 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/l,upperdir={},workdir=/w"


def test_the_layer_of_a_daemon_is_in_the_table_of_its_container(tmp_path: Path) -> None:
    (tmp_path / "an upper").mkdir()
    text = table("0:1 / /proc rw - proc proc rw", ROOT.format(f"{tmp_path}/an\\040upper"))
    tables = [parse_mounts(text), parse_mounts(table(ROOT.format("relative")))]
    assert layers_of(tables) == (tmp_path / "an upper",)
    assert layers_of(tables, proc=tmp_path) == ()
    assert roots_of(tables) == {os.makedev(0, 44)}


def test_a_root_that_is_no_overlay() -> None:
    tables = [parse_mounts(table("8:1 / / rw - ext4 /dev/sda rw"))]
    assert (layers_of(tables), roots_of(tables)) == ((), set())
    assert layers_of([parse_mounts(table("0:4 / / rw - overlay overlay rw,lowerdir=/l"))]) == ()


def test_places_that_a_daemon_has_added(tmp_path: Path) -> None:
    for name in ("hosts", "run/out", "volume", "input"):
        (tmp_path / name).mkdir(parents=True)
    container = parse_mounts(
        table(
            ROOT.format("/u"),
            "8:1 /data/hosts /etc/hosts rw,relatime - ext4 /dev/sda rw",
            "8:1 /data/run/out /out rw - ext4 /dev/sda rw",
            "8:1 /data/input /in ro - ext4 /dev/sda rw",
            "8:1 /data/volume /v rw - ext4 /dev/sda rw",
            "8:1 /data/volume /w rw - ext4 /dev/sda ro",
            "8:1 /data/none /n rw - ext4 /dev/sda rw",
            "8:9 /data/volume /x rw - ext4 /dev/sdz rw",
            "0:5 /data/volume /dev/shm rw - tmpfs shm rw",
        )
    )
    own = parse_mounts(
        table(
            "0:5 / /dev/shm rw - tmpfs tmpfs rw",
            "8:1 /elsewhere /elsewhere rw - ext4 /dev/sda rw",
            f"8:1 /data {tmp_path} rw - ext4 /dev/sda rw",
        )
    )
    places = added_places([container], own, run=tmp_path / "run")
    assert places == (tmp_path / "hosts", tmp_path / "volume")


def test_each_namespace_is_read_once(tmp_path: Path) -> None:
    for pid, namespace in (("self", "own"), ("6", "own"), ("7", "a"), ("8", "a"), ("9", "b")):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "ns" / "mnt").symlink_to(namespace)
        (tmp_path / pid / "mountinfo").write_text(table(ROOT.format(f"/{pid}")))
    tables = list(tables_of([6, 7, 8, 9, 10], proc=tmp_path))
    assert [mounts[0].upper for mounts in tables] == ["/7", "/9"]


def test_this_process_has_a_table() -> None:
    assert any(mount.point == "/" for mount in read_table())
    assert list(tables_of([os.getpid()])) == []


@pytest.mark.parametrize("options", ["rw", "ro"])
def test_a_mount_is_writable_where_its_file_system_is_too(options: str) -> None:
    (mount,) = parse_mounts(table(f"8:1 /d /p rw - ext4 /dev/sda {options}"))
    assert mount.is_writable == (options == "rw")
