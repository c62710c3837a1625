"""Every block volume, the fake included, keeps to `lading.testing.conformance.volumes`."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.blobs.app import make_app
from lading.blobs.directory import DirectoryVolume
from lading.blobs.remote import RemoteVolume
from lading.blobs.s3 import S3Volume
from lading.blobs.volume import Volume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.config.site import Config
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume
from lading.testing.conformance.volumes import Rot, VolumeSuite
from tests.blobs.damaged_packs import damage_packed
from tests.s3_service import make_bucket


def _rot_file(root: Path, hash: str) -> None:
    path = root / hash[:3] / hash
    path.write_bytes(b"!" + path.read_bytes()[1:])


async def _any_token(_: str, /, *, writing: bool) -> None:
    """Every token may use the store."""


def _served(volume: Volume) -> RemoteVolume:
    """A volume as another server reaches it."""
    uuid, config = "zzzzz-nyw5e-000000000000000", Config(SystemRootToken="root")
    app = make_app(
        VolumeSet([VolumeMount(uuid=uuid, volume=volume)]),
        config,
        clock=time.time,
        check_token=_any_token,
    )
    return RemoteVolume(uuid, AsgiTransport(app), "root")


@pytest.fixture(params=["directory", "packs", "s3", "remote", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Volume, Rot]]:
    volume: Volume
    if request.param == "memory":
        volume = MemoryVolume()
        rot = volume.rot
    elif request.param == "remote":
        directory = DirectoryVolume(tmp_path / "blocks")
        volume, rot = _served(directory), lambda hash: _rot_file(tmp_path / "blocks", hash)
    elif request.param == "packs":
        volume = DirectoryVolume(tmp_path / "blocks", pack_small_blocks=True)
        rot = functools.partial(damage_packed, tmp_path / "blocks")
    elif request.param == "s3":
        bucket = make_bucket()
        volume, rot = (
            S3Volume(bucket.parameters),
            lambda hash: bucket.write(f"{hash[:3]}/{hash}", b"!!!"),
        )
    else:
        volume, rot = (
            DirectoryVolume(tmp_path / "blocks"),
            lambda hash: _rot_file(tmp_path / "blocks", hash),
        )
    yield volume, rot
    await volume.close()


class TestVolumes(VolumeSuite):
    """The suite on each volume."""
