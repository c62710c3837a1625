from __future__ import annotations

from pathlib import Path

import pytest

from lading.supervisor import linux
from lading.supervisor.engines.bundle import IN_MEMORY, mount_root
from lading.supervisor.engines.id_mappings import fault_of
from lading.supervisor.engines.user_namespace import UserNamespace
from tests.reality import need, need_root


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    need_root()
    made = [tmp_path / "low", tmp_path / "high"]
    for number, one in enumerate(made):
        one.mkdir()
        (one / "file").write_text(str(number))
    return made


def test_upper_layers_hide_lower_ones(layers: list[Path], tmp_path: Path) -> None:
    rootfs, note = mount_root(layers, tmp_path / "bundle")
    assert (note, (rootfs / "file").read_text()) == ("", "1")
    (rootfs / "new").touch()
    assert (tmp_path / "bundle" / "upper" / "new").exists()
    linux.unmount_below(tmp_path / "bundle")


def test_it_belongs_to_the_root_of_a_user_namespace(layers: list[Path], tmp_path: Path) -> None:
    need(fault_of(tmp_path) == "", "idmapped mounts")
    namespace = UserNamespace(tmp_path / "run", tmp_path / "machine")
    namespace.open()
    rootfs, note = mount_root(layers, tmp_path / "bundle", namespace, name="rootfs-3")
    assert (note, rootfs.name) == ("", "rootfs-3")
    assert {rootfs.stat().st_uid, (rootfs / "file").stat().st_uid} == {namespace.root}
    namespace.close()
    linux.unmount_below(tmp_path / "bundle")


def test_changes_are_in_memory_where_the_disk_takes_none(
    layers: list[Path], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for name in ("data", "upper", "work"):
        (tmp_path / name).mkdir()
    linux.mount_overlay(
        str(data),
        lower=[str(layers[0])],
        upper=str(tmp_path / "upper"),
        work=str(tmp_path / "work"),
    )
    _, note = mount_root(layers, data / "bundle")
    assert note == IN_MEMORY
    linux.unmount_below(data / "bundle")
    linux.unmount(str(data))
