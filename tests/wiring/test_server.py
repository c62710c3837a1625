"""The server process: API and blocks on HTTPS and on the local socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from hashlib import md5
from pathlib import Path

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.transport import HttpTransport
from lading.config.site import load
from lading.core.errors import NotFound, Unavailable
from lading.wiring import server
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from tests.system.cluster import free_address


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[DataDirectory, str, Secrets]]:
    directory, address = DataDirectory(tmp_path), free_address()
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    ensure_certificate(
        directory.certificate, directory.key, host="127.0.0.1", now=datetime.now(UTC)
    )
    ready, stop = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(server.serve(directory, address, stop=stop, on_ready=ready.set))
    async with asyncio.timeout(180):
        await ready.wait()
    yield directory, address, secrets
    stop.set()
    async with asyncio.timeout(180):
        await serving


async def test_https_with_the_certificate_made_for_it(
    served: tuple[DataDirectory, str, Secrets],
) -> None:
    directory, address, secrets = served
    async with HttpTransport(f"https://{address}", verify=directory.certificate) as transport:
        user = await ApiClient(transport, secrets.admin_token).get("users", "current")
    assert user["uuid"] == secrets.admin_uuid


async def test_blocks_and_records_over_the_local_socket(
    served: tuple[DataDirectory, str, Secrets],
) -> None:
    directory, _, secrets = served
    assert directory.socket.stat().st_mode & 0o777 == 0o600
    async with HttpTransport(unix_socket=directory.socket) as transport:
        locator = await BlockClient(transport, secrets.admin_token).put(b"data")
        made = await ApiClient(transport, secrets.admin_token).create(
            "collections", {"manifest_text": f". {locator} 0:4:file\n"}
        )
    assert made["file_size_total"] == 4


async def test_the_volume_is_read_by_locator(tmp_path: Path) -> None:
    volume = DirectoryVolume(tmp_path)
    mounts = VolumeSet([VolumeMount(uuid="zzzzz-nyw5e-000000000000000", volume=volume)])
    name = md5(b"data").hexdigest()
    await volume.put(name, b"data")
    blocks = server.VolumeBlocks(mounts, load(None, {}))
    assert await blocks.get(f"{name}+4") == b"data"
    with pytest.raises(NotFound):
        await blocks.get("0" * 32 + "+4")
    assert await blocks.get(await blocks.keep(b"more")) == b"more"


async def test_a_taken_address_is_named(
    served: tuple[DataDirectory, str, Secrets], tmp_path: Path
) -> None:
    _, address, _ = served
    other = DataDirectory(tmp_path / "other")
    other.prepare()
    other.secrets(entropy=os.urandom(400))
    ensure_certificate(other.certificate, other.key, host="127.0.0.1", now=datetime.now(UTC))
    with pytest.raises(Unavailable, match="choose another --listen"):
        await server.serve(other, address, stop=asyncio.Event(), on_ready=lambda: None)


async def test_a_path_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    deep = DataDirectory(tmp_path / ("x" * 100))
    deep.prepare()
    deep.secrets(entropy=os.urandom(400))
    ensure_certificate(deep.certificate, deep.key, host="127.0.0.1", now=datetime.now(UTC))
    with pytest.raises(Unavailable, match="shorter path"):
        await server.serve(deep, free_address(), stop=asyncio.Event(), on_ready=lambda: None)
