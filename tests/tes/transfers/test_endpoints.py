"""Bodies of requests made of stored files."""

from __future__ import annotations

import hashlib

from lading.client.blocks import BlockClient
from lading.core.data.filetree import File, Segment
from lading.tes.transfers.endpoints import BodySender, OutgoingFile
from lading.testing.asgi import AsgiTransport
from tests.tes.site import TaskWorld, WithBlocks


class Wire:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def write(self, data: bytes | bytearray) -> None:
        self.sent += data


async def test_a_body_is_sent_anew_with_its_checksums(it: TaskWorld) -> None:
    parts = [it.world.blocks.put(one) for one in (b"xab", b"cdy")]
    file = File((Segment(parts[0], 1, 2), Segment(parts[1], 0, 2)))
    blocks = BlockClient(AsgiTransport(WithBlocks(it.world)), it.world.admin)
    sender = BodySender(OutgoingFile(blocks=blocks, file=file, key="k"))
    for _ in range(2):
        wire = Wire()
        await sender(wire)  # type: ignore[arg-type]
        assert wire.sent == b"abcd"
        assert sender.sha256.hexdigest() == hashlib.sha256(b"abcd").hexdigest()
        assert sender.md5.hexdigest() == hashlib.md5(b"abcd").hexdigest()
