"""Storage classes of a set of volumes: blocks for unknown classes, and classes of a content."""

from __future__ import annotations

import hashlib

import httpx
import pytest

from lading.blobs.app import make_app
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.config.site import Config
from lading.testing.blocks import MemoryVolume

ONE, TWO = (hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"one", b"two"))
ALL = frozenset({"default", "archive"})


class Site:
    """Two volumes: `disk` serves default, `tape` serves archive (and default where `is_equal`)."""

    def __init__(self, *, is_equal: bool = False) -> None:
        self.disk, self.tape = MemoryVolume(), MemoryVolume()
        self.volumes = VolumeSet(
            [
                VolumeMount(
                    uuid="a",
                    volume=self.disk,
                    classes=ALL if is_equal else frozenset({"default"}),
                ),
                VolumeMount(
                    uuid="b",
                    volume=self.tape,
                    classes=ALL if is_equal else frozenset({"archive"}),
                ),
            ]
        )

    async def put(self, data: bytes, classes: str) -> httpx.Response:
        """Store a block over HTTP."""

        async def allow(token: str, *, writing: bool) -> None:
            del token, writing

        app = make_app(self.volumes, Config(), clock=lambda: 0.0, check_token=allow)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as c:
            headers = {"Authorization": "Bearer t", "X-Keep-Storage-Classes": classes}
            return await c.post("/", content=data, headers=headers)


@pytest.mark.parametrize(
    ("asked", "told", "on_disk"),
    [
        ("archive", "archive=1", False),
        ("nowhere", "nowhere=0", True),
        ("archive, nowhere", "archive=1, nowhere=0", False),
    ],
)
async def test_a_class_that_no_volume_serves(asked: str, told: str, on_disk: bool) -> None:
    site = Site()
    answer = await site.put(b"one", asked)
    assert answer.status_code == 200
    assert answer.headers["x-keep-storage-classes-confirmed"] == told
    assert [stored.hash async for stored in site.disk.index()] == ([ONE] if on_disk else [])


async def test_the_classes_that_have_every_block() -> None:
    site = Site()
    for data in (b"one", b"two"):
        await site.put(data, "default")
    await site.put(b"one", "archive")
    wanted = ["archive", "default", "nowhere"]
    assert await site.volumes.classes_of([ONE], wanted) == ["archive", "default"]
    assert await site.volumes.classes_of([ONE, TWO], wanted) == ["default"]
    assert await site.volumes.classes_of([], wanted) == ["archive", "default"]


async def test_many_blocks_are_not_looked_up() -> None:
    many = [f"{number:032x}" for number in range(1000)]
    assert await Site().volumes.classes_of(many, ["default"]) == []
    assert await Site(is_equal=True).volumes.classes_of(many, ["default", "x"]) == ["default"]
