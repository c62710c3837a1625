from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType

import pytest

from lading.blobs import s3
from lading.blobs.s3 import S3Volume
from lading.blobs.volume import open_volume
from lading.core.errors import Full, Invalid, NotFound, Unavailable
from tests.s3_service import Bucket, make_bucket

FOO = hashlib.md5(b"foo", usedforsecurity=False).hexdigest()


@pytest.fixture
def bucket() -> Bucket:
    return make_bucket()


@pytest.fixture
async def volume(bucket: Bucket) -> AsyncIterator[S3Volume]:
    made = S3Volume({**bucket.parameters, "Prefix": "some/where/"})
    yield made
    await made.close()


def test_the_driver_is_found_by_its_name(bucket: Bucket) -> None:
    assert isinstance(open_volume("S3", bucket.parameters), S3Volume)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="Bucket is missing"):
        S3Volume({})

    def absent(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(Invalid, match="pip install aiobotocore"):
        S3Volume({"Bucket": "any"})


async def test_a_large_block_there_and_back(volume: S3Volume) -> None:
    data = os.urandom(20 << 20)
    name = hashlib.md5(data).hexdigest()
    await volume.put(name, memoryview(data))
    room = memoryview(bytearray(len(data)))
    assert bytes(await volume.get(name, room)) == data
    assert (await volume.head(name)).size == len(data)


async def test_other_objects_in_the_bucket_are_not_blocks(volume: S3Volume, bucket: Bucket) -> None:
    for key in ("some/where/abc/notahash", "some/where/trash/odd", "elsewhere/acb/" + FOO):
        bucket.write(key, b"x")
    await volume.put(FOO, b"foo")
    assert [one.hash async for one in volume.index()] == [FOO]
    assert [one async for one in volume.discarded()] == []


async def test_a_bucket_that_is_not_there_is_named(bucket: Bucket) -> None:
    volume = S3Volume({**bucket.parameters, "Bucket": "absent"})
    for work in (volume.put(FOO, b"foo"), volume.get(FOO), volume.space()):
        with pytest.raises(Unavailable, match="the bucket absent does not exist"):
            await work
    with pytest.raises(Unavailable, match="absent"):
        _ = [one async for one in volume.index()]
    await volume.close()


async def test_a_service_that_does_not_answer() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        volume = S3Volume({"Bucket": "any", "Endpoint": f"http://127.0.0.1:{port}",
                           "AccessKeyID": "a", "SecretAccessKey": "b",
                           "ConnectTimeout": 1})  # fmt: skip
        with pytest.raises(Unavailable, match="does not answer"):
            await volume.get(FOO)
        await volume.close()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("NoSuchKey", 404, NotFound),
        ("QuotaExceeded", 403, Full),
        ("", 507, Full),
        ("AccessDenied", 403, Unavailable),
    ],
)
def test_what_the_service_refuses(code: str, status: int, kind: type[Exception]) -> None:
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert type(s3.failure_of(response, FOO, "b")) is kind


async def test_a_block_that_goes_into_the_bin_while_it_is_put_is_sent_again(
    volume: S3Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    await volume.put(FOO, b"foo")
    touch = volume.touch

    async def discard_first(hash: str) -> None:
        await volume.discard(hash, (await volume.head(hash)).mtime_ns)
        await touch(hash)

    monkeypatch.setattr(volume, "touch", discard_first)
    await volume.put(FOO, b"foo")
    assert await volume.get(FOO) == b"foo"


async def test_many_users_make_one_client(volume: S3Volume) -> None:
    await asyncio.gather(*(volume.put(FOO, b"foo") for _ in range(5)))
    assert await volume.get(FOO) == b"foo"


class _Hanging:
    """A service that takes so many requests without an answer, then answers that it has no object,
    and takes all.
    """

    def __init__(self, silent: int) -> None:
        self.silent = silent
        self.kept = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                sizes = [
                    int(one.partition(":")[2]) for one in lines if one.startswith("content-length:")
                ]
                if self.silent:
                    self.silent -= 1
                    await reader.read()
                    return
                if "expect: 100-continue" in lines:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(sum(sizes))
                self.kept = body or self.kept
                status = b"200 OK" if head.startswith(b"PUT") else b"404 Not Found"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def hanging(silent: int) -> AsyncGenerator[tuple[_Hanging, S3Volume]]:
    """A service that hangs for so many requests, and a volume on it."""
    service = _Hanging(silent)
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    parameters: dict[str, str | int | float | bool] = {
        "Bucket": "b", "Endpoint": endpoint, "AccessKeyID": "k", "SecretAccessKey": "s",
        "RequestTimeout": 0.3,
    }  # fmt: skip
    volume = S3Volume(parameters)
    try:
        yield service, volume
    finally:
        await volume.close()
        server.close()


@pytest.mark.parametrize("silent", [1, 2])
async def test_a_put_that_began_while_the_service_hung_ends_in_time(silent: int) -> None:
    data = b"data"
    name = hashlib.md5(data, usedforsecurity=False).hexdigest()
    async with asyncio.timeout(20), hanging(silent) as (service, volume):
        if silent == 1:
            await volume.put(name, data)
            assert b"data" in service.kept
        else:
            with pytest.raises(Unavailable, match="no answer to head_object within"):
                await volume.put(name, data)
