"""Responses of S3 whose body ends early: asked again, then another copy, then Unavailable."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import httpx
import pytest

from lading.blobs.app import make_app
from lading.blobs.s3 import S3Volume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.config.site import Config
from lading.core.errors import Corrupt, Unavailable
from lading.testing.blocks import MemoryVolume

DATA = b"x" * 100_000
NAME = hashlib.md5(DATA, usedforsecurity=False).hexdigest()
LISTING = (
    '<?xml version="1.0"?><ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>'
    f"<Contents><Key>{NAME[:3]}/{NAME}</Key><Size>{len(DATA)}</Size>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
).encode()


class CuttingService:
    """An S3 service with one object; it ends the bodies of the next `broken` answers early, after
    at most `sent` bytes.
    """

    def __init__(self, *, is_chunked: bool = False) -> None:
        self.broken = 0
        self.sent = 4096
        self.data = DATA
        self.is_chunked = is_chunked

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if not self._answer(head.decode(), writer):
                    return
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()

    def _answer(self, head: str, writer: asyncio.StreamWriter) -> bool:
        method, path, _ = head.split(" ", 2)
        if method == "HEAD" or "list-type" in path or NAME in path:
            body = LISTING if "list-type" in path else self.data
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return True
        framing = (
            "Transfer-Encoding: chunked" if self.is_chunked else f"Content-Length: {len(body)}"
        )
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n{framing}\r\n\r\n".encode())
        is_broken, self.broken = self.broken > 0, max(0, self.broken - 1)
        if is_broken:
            body = body[: min(self.sent, len(body) // 2)]
        writer.write(b"%x\r\n%b\r\n" % (len(body), body) if self.is_chunked else body)
        if self.is_chunked and not is_broken:
            writer.write(b"0\r\n\r\n")
        return not is_broken


@pytest.fixture
async def service() -> AsyncIterator[tuple[CuttingService, S3Volume]]:
    made = CuttingService()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    volume = S3Volume(
        {"Bucket": "b", "Endpoint": endpoint, "AccessKeyID": "k", "SecretAccessKey": "s"}
    )
    yield made, volume
    await volume.close()
    server.close()


@pytest.mark.parametrize("broken", [1, 2])
async def test_a_body_that_ends_early_is_asked_for_again(
    service: tuple[CuttingService, S3Volume], broken: int
) -> None:
    service[0].broken = broken
    assert await service[1].get(NAME) == DATA


async def test_a_body_that_always_ends_early_is_no_damage(
    service: tuple[CuttingService, S3Volume],
) -> None:
    service[0].broken = 1000
    with pytest.raises(Unavailable, match=f"{NAME}.*ended the body after 4096 of 100000 bytes"):
        await service[1].get(NAME)


async def test_another_object_of_the_right_size_is_damage(
    service: tuple[CuttingService, S3Volume],
) -> None:
    service[0].data = b"y" * len(DATA)
    with pytest.raises(Corrupt):
        await service[1].get(NAME)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_listing_that_ends_early_is_asked_for_again(
    service: tuple[CuttingService, S3Volume], is_chunked: bool
) -> None:
    service[0].is_chunked, service[0].broken = is_chunked, 1
    assert [stored.hash async for stored in service[1].index(NAME[:4])] == [NAME]


async def test_a_listing_that_always_ends_early(service: tuple[CuttingService, S3Volume]) -> None:
    service[0].broken = 1000
    with pytest.raises(Unavailable, match="the bucket b"):
        _ = [stored async for stored in service[1].index(NAME[:4])]


async def _read(*mounts: VolumeMount) -> httpx.Response:
    config = Config()

    async def allow(token: str, *, writing: bool) -> None:
        del token, writing

    app = make_app(VolumeSet(mounts), config, clock=lambda: 0.0, check_token=allow)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        return await client.get(f"/{NAME}+{len(DATA)}", headers={"Authorization": "Bearer t"})


async def test_another_copy_is_read(service: tuple[CuttingService, S3Volume]) -> None:
    service[0].broken = 1000
    copy = MemoryVolume()
    await copy.put(NAME, DATA)
    answer = await _read(
        VolumeMount(uuid="a", volume=service[1]), VolumeMount(uuid="b", volume=copy)
    )
    assert (answer.status_code, answer.content) == (200, DATA)


async def test_without_another_copy_the_reason_is_told(
    service: tuple[CuttingService, S3Volume],
) -> None:
    service[0].broken = 1000
    answer = await _read(VolumeMount(uuid="a", volume=service[1]))
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert "ended the body after 4096 of 100000 bytes" in answer.text


async def test_a_body_without_a_length_is_refused(
    service: tuple[CuttingService, S3Volume],
) -> None:
    service[0].is_chunked = True
    with pytest.raises(Unavailable, match="without a length"):
        await service[1].get(NAME)
