from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.blobs.remote import RemoteVolume
from lading.config.site import load
from lading.core.errors import Invalid
from lading.wiring.directory import DataDirectory
from lading.wiring.volumes import open_mounts

UUID = "zzzzz-nyw5e-abcdefghijklmno"


async def test_without_configuration_there_is_one_directory_for_everything(tmp_path: Path) -> None:
    config = load(
        None, {"ClusterID": "zzzzz", "StorageClasses": {"default": {"Default": True}, "fast": {}}}
    )
    mounts = await open_mounts(config, DataDirectory(tmp_path))
    (mount,) = mounts.all
    assert (mount.uuid, mount.copies) == ("zzzzz-nyw5e-000000000000000", None)
    assert mount.classes == {"default", "fast"}
    assert isinstance(mount.volume, DirectoryVolume)
    await mounts.aclose()


async def test_volumes_count_for_what_the_configuration_says(tmp_path: Path) -> None:
    classes = {"default": {"Default": True}, "archive": {}}
    volume = {"DriverParameters": {"Root": str(tmp_path / "a")}, "Replication": 2, "ReadOnly": True}
    other = {
        "DriverParameters": {"Root": str(tmp_path / "b")},
        "StorageClasses": {"archive": True, "default": False},
    }
    config = load(
        None, {"StorageClasses": classes, "Volumes": {UUID: volume, UUID[:-1] + "p": other}}
    )
    first, second = (await open_mounts(config, DataDirectory(tmp_path))).all
    assert (first.uuid, first.copies, first.classes, first.is_read_only) == (
        UUID,
        2,
        frozenset({"default"}),
        True,
    )
    assert (second.copies, second.classes, second.is_read_only) == (
        1,
        frozenset({"archive"}),
        False,
    )


async def test_a_volume_of_another_server_is_asked_of_it(tmp_path: Path) -> None:
    there, here = "https://there:9440", "https://here:9440/"
    volumes = {
        UUID: {"AccessViaHosts": {f"{there}/": {}}},
        UUID[:-1] + "p": {
            "AccessViaHosts": {here: {"ReadOnly": True}, there: {}},
            "DriverParameters": {"Root": str(tmp_path / "a")},
        },
    }
    (tmp_path / "authorities.pem").write_text("")
    mounts = await open_mounts(
        load(None, {"ExternalURL": here, "Volumes": volumes}), DataDirectory(tmp_path)
    )
    first, second = mounts.all
    assert isinstance(first.volume, RemoteVolume)
    assert (first.driver, first.device, first.is_read_only) == ("remote", f"volume {UUID}", False)
    assert (second.driver, second.is_read_only) == ("Directory", True)
    await mounts.aclose()


@pytest.mark.parametrize(
    ("volumes", "words"),
    [
        ({"other": {}}, "Volumes.other: .*15 letters or digits"),
        ({UUID: {"Driver": "Tape"}}, "no driver 'Tape'; there are: Directory"),
        ({UUID: {"Replication": 0}}, f"{UUID}.Replication"),
        ({UUID: {"StorageClasses": {"fast": True}}}, "fast is not among StorageClasses"),
        ({UUID: {"Drivers": "x"}}, f"unknown key Volumes.{UUID}.Drivers"),
        ({UUID: {"Replication": "x"}}, f"Volumes.{UUID}.Replication"),
        ({UUID: {"AccessViaHosts": {"http://there": {}}}}, "write https://HOST:PORT"),
        ([], "Volumes must be a mapping"),
    ],
)
async def test_what_is_wrong_is_named(tmp_path: Path, volumes: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await open_mounts(load(None, {"Volumes": volumes}), DataDirectory(tmp_path))
