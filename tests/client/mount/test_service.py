"""A whole mount in this process: the API and the blocks of a world, the events, the kernel."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lading.client.mount import mount_points
from lading.client.mount.layout import MountView
from lading.client.mount.service import MountSettings, mounted, open_transport
from lading.client.transport import HttpTransport
from lading.core.errors import Invalid, LadingError, NotFound
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world
from tests.reality import need


def _settings(
    root: Path, it: World, view: MountView = MountView.ALL, id: str = ""
) -> MountSettings:
    place = root / "mount"
    place.mkdir(exist_ok=True)
    return MountSettings(
        mountpoint=str(place),
        token=it.admin,
        cache_directory=str(root / "cache"),
        view=view,
        timeout=10.0,
        id=id,
    )


async def _listed(path: Path) -> set[str]:
    return set(await asyncio.to_thread(os.listdir, path))


async def test_a_mount_from_beginning_to_end(tmp_path: Path) -> None:
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")
    async with world(tmp_path) as it:
        await it.collection({"a.txt": b"hello"}, name="one")
        settings = _settings(tmp_path, it)
        async with mounted(settings, AsgiTransport(it.app)) as mount:
            place = Path(settings.mountpoint)
            assert await _listed(place) == {"README", "by_id", "home", "shared", "by_tag"}
            assert "one" in await _listed(place / "home")
            assert await _listed(place / "home" / "one") == {"a.txt"}
            await it.collection({"b.txt": b"x"}, name="two")
            async with asyncio.timeout(180):
                while "two" not in await _listed(place / "home"):
                    await asyncio.sleep(0)
            with pytest.raises(LadingError, match="something is mounted there"):
                mount_points.check_point(place)
        assert mount_points.kind_of(place) == ""
        assert mount.statistics()["failed"] == 0


async def test_somebody_else_may_unmount(tmp_path: Path) -> None:
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")
    async with world(tmp_path) as it:
        settings = _settings(tmp_path, it, MountView.BY_PDH)
        async with mounted(settings, AsgiTransport(it.app)) as mount:
            await asyncio.to_thread(mount_points.unmount, Path(settings.mountpoint))
            await asyncio.wait_for(mount.ended.wait(), 60)


@pytest.mark.parametrize(
    ("view", "id", "error"),
    [(MountView.COLLECTION, "what", Invalid), (MountView.COLLECTION, f"{'0' * 32}+10", NotFound)],
)
async def test_what_is_not_there_is_not_mounted(
    tmp_path: Path, view: MountView, id: str, error: type[LadingError]
) -> None:
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")
    async with world(tmp_path) as it:
        settings = _settings(tmp_path, it, view, id=id)
        with pytest.raises(error):
            async with mounted(settings, AsgiTransport(it.app)):
                raise AssertionError("not reached")
        assert mount_points.kind_of(Path(settings.mountpoint)) == ""


async def test_the_ways_to_a_server(tmp_path: Path) -> None:
    common = {"mountpoint": "/m", "token": "t", "cache_directory": "/c"}
    for more, address in (
        ({"api_socket": "/s"}, "/s"),
        ({"api_url": "https://example.org", "api_insecure": True}, "https://example.org"),
    ):
        transport = open_transport(MountSettings(**common, **more))  # type: ignore[arg-type]
        assert isinstance(transport, HttpTransport)
        assert transport.address == address
        await transport.close()
