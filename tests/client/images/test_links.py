"""Names of images; registration itself is tested with the commands that do it
(tests/cli/test_images.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.images.links import full_name, list_images, register
from lading.client.images.sources import normalise
from lading.core.data import filetree
from lading.core.errors import Invalid
from lading.core.image_names import IMAGE_HASH, REPO_TAG
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world
from tests.client.images.images_on_disk import LAYERS, saved_files, write_tar

_NOW = datetime(2026, 2, 3, tzinfo=UTC)


class _Blocks(BlockClient):
    """Stores blocks in a world directly, signed for its admin."""

    def __init__(self, place: World) -> None:
        self._place = place

    async def put(self, data: bytes | bytearray, digest: str = "") -> str:
        return self._place.signed(self._place.blocks.put(bytes(data)), self._place.admin)


@pytest.mark.parametrize(
    ("text", "name"), [("tools", "tools:latest"), ("a/b:1.0", "a/b:1.0"), ("h:5/a:1", "h:5/a:1")]
)
def test_names(text: str, name: str) -> None:
    assert full_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "a b", ":1", "a:", "sha256:" + "0" * 64, "0" * 32 + "+12", "ä"]
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(Invalid, match="not a name for an image"):
        full_name(text)


async def test_the_records_are_those_that_keepdocker_makes(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "a.tar", saved_files(*LAYERS))
    image = await normalise(str(source), tmp_path)
    seen: list[tuple[int, int]] = []
    async with world(tmp_path) as place:
        api = ApiClient(AsgiTransport(place.app), place.admin)
        done = await register(
            api,
            _Blocks(place),
            image,
            names=["tools"],
            now=_NOW,
            progress=lambda *both: seen.append(both),
        )
        collection = await api.get("collections", done.image.collection_uuid)
        links = await api.list(
            "links", filters=[["link_class", "!=", "permission"]], order=["link_class asc"]
        )
        listed = await list_images(api)
    assert seen[-1] == (image.size, image.size)
    assert collection["properties"] == {"docker-image-repo-tag": "tools:latest"}
    (entry,) = filetree.walk(filetree.from_manifest(collection["manifest_text"]))
    assert entry[0] == image.file_name
    assert [(one["link_class"], one["name"]) for one in links] == [
        (IMAGE_HASH, image.digest),
        (REPO_TAG, "tools:latest"),
    ]
    assert {one["properties"]["image_timestamp"] for one in links} == {"2026-01-02T03:04:05Z"}
    assert [one.names for one in listed] == [("tools:latest",)]


async def test_an_image_whose_collection_is_gone_is_stored_again(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "a.tar", {"bin/sh": b"x"})
    image = await normalise(str(source), tmp_path)
    async with world(tmp_path) as place:
        api = ApiClient(AsgiTransport(place.app), place.admin)
        first = await register(api, _Blocks(place), image, names=[], now=_NOW)
        assert first.image.names == ()
        await api.delete("collections", first.image.collection_uuid)
        assert await list_images(api) == []
        again = await register(api, _Blocks(place), image, names=["a"], now=_NOW)
        (one,) = await list_images(api)
    assert again.is_new
    assert one.timestamp == "2026-02-03T00:00:00.000000000Z", (
        "without a time of its own, an image has that of its adding"
    )
