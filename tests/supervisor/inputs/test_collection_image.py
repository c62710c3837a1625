from __future__ import annotations

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs.collection_image import CollectionImage
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer


def image_of(server: FakeServer, pdh: str) -> CollectionImage:
    transport = AsgiTransport(server)
    api, blocks = (
        ApiClient(transport, "t", retry=NO_RETRY),
        BlockClient(transport, "t", retry=NO_RETRY),
    )
    return CollectionImage(api, blocks, pdh)


async def test_the_archive_is_read_when_it_is_wanted() -> None:
    server = FakeServer()
    image = image_of(server, server.add_collection({"sha256:ab.tar": b"bytes"}))
    assert server.calls == []
    assert await image.name() == "sha256:ab"
    assert b"".join([chunk async for chunk in image.chunks()]) == b"bytes"
    assert server.calls == ["GET collections", "GET block"]


async def test_what_is_no_image() -> None:
    server = FakeServer()
    for pdh in (server.add_collection({"x": b""}), "acbd18db4cc2f85cedef654fccc4a4d8+3"):
        with pytest.raises(ExecutionError) as caught:
            await image_of(server, pdh).name()
        assert caught.value.failure is Failure.IMAGE


async def test_an_archive_that_cannot_be_read() -> None:
    server = FakeServer()
    image = image_of(server, server.add_collection({"sha256:ab.tar": b"bytes"}))
    blocks = dict(server.blocks)
    server.blocks.clear()
    with pytest.raises(ExecutionError, match="cannot be read") as lost:
        [chunk async for chunk in image.chunks()]
    server.blocks.update(blocks)
    server.faults["GET block"] = [503]
    with pytest.raises(ExecutionError, match="cannot be read") as busy:
        [chunk async for chunk in image.chunks()]
    assert (lost.value.failure, busy.value.failure) == (Failure.IMAGE, Failure.INFRASTRUCTURE)
