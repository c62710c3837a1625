from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import socket
from collections.abc import AsyncIterator
from types import ModuleType

import pytest

from lading.blobs import s3
from lading.blobs.s3 import S3Volume
from lading.blobs.volume import open_volume
from lading.core.errors import Full, Invalid, NotFound, Unavailable
from tests.s3 import Bucket, make_bucket

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
    with pytest.raises(Invalid, match=r"pip install 'lading\[s3\]'"):
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
        with pytest.raises(Unavailable, match="the bucket absent is not there"):
            await work
    with pytest.raises(Unavailable, match="absent"):
        _ = [one async for one in volume.index()]
    await volume.close()


async def test_a_service_that_does_not_answer() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        volume = S3Volume({"Bucket": "any", "Endpoint": f"http://127.0.0.1:{port}", "AccessKeyID": "a",
                           "SecretAccessKey": "b", "ConnectTimeout": 1})  # fmt: skip
        with pytest.raises(Unavailable, match="does not answer"):
            await volume.get(FOO)
        await volume.close()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [("NoSuchKey", 404, NotFound), ("QuotaExceeded", 403, Full), ("", 507, Full), ("AccessDenied", 403, Unavailable)],
)
def test_what_the_service_refuses(code: str, status: int, kind: type[Exception]) -> None:
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert type(s3._failure(response, FOO, "b")) is kind


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
