"""A world as a mount sees it: the API, a block store that counts, and time that stands still."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.mount.layout import MountLayout
from lading.client.mount.nodes import Directory, MountedCollections, MountPlace, find
from lading.client.retry import NO_RETRY
from lading.core.records.schema import JSON
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world


@dataclass
class Scene:
    """A world, and a layout over it."""

    world: World
    api: ApiClient
    now: float = 0.0
    layout: MountLayout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = MountLayout(MountedCollections(self.api, clock=lambda: self.now))

    async def collection(self, files: dict[str, bytes], **attributes: JSON) -> str:
        """The uuid of a new collection."""
        return str((await self.world.collection(files, **attributes))["uuid"])

    async def names(self, top: Directory, path: str) -> set[str]:
        """What is listed in a directory."""
        place = await find(top, path.split("/") if path else [])
        assert place is not None
        return set(await place.node.list())  # type: ignore[union-attr]

    async def place(self, top: Directory, path: str) -> MountPlace | None:
        """What is at a path."""
        return await find(top, path.split("/"))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    """An admin's view of an empty world."""
    async with world(tmp_path) as it:
        yield Scene(it, ApiClient(AsgiTransport(it.app), it.admin, retry=NO_RETRY))
