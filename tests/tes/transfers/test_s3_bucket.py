"""Buckets of a real S3 service (moto), as inputs and as outputs."""

from __future__ import annotations

import hashlib
import os

import pytest

from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.core.data.filetree import File, Segment
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound
from lading.core.records.schema import Record
from lading.core.tes.s3_requests import AccessKey, BucketPlace
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.endpoints import OutgoingFile
from lading.tes.transfers.outside_http import OutsideHttp, PassingFault
from lading.tes.transfers.s3_bucket import S3Bucket, S3Source, S3Target, access_key
from lading.testing.asgi import AsgiTransport
from tests.s3_service import Bucket, make_bucket
from tests.tes.outside import MeanServer
from tests.tes.site import TaskWorld, WithBlocks, make_rules
from tests.tes.transfers.test_inputs import content, fetched, logs, mount
from tests.tes.transfers.test_outputs import delivered


async def credential(it: TaskWorld, bucket: Bucket, name: str = "") -> Record:
    body = {
        "name": bucket.name,
        "credential_class": "s3",
        "scopes": [f"s3://{name or bucket.name}?endpoint={bucket.service.endpoint}"],
        "external_id": bucket.service.key,
        "secret": bucket.service.secret,
        "expires_at": "2030-01-01T00:00:00Z",
    }
    found: Record = await it.world.ok("POST", "credentials", body)
    return found


@pytest.fixture
async def bucket(it: TaskWorld) -> Bucket:
    made = make_bucket()
    await credential(it, made)
    return made


def stored(bucket: Bucket) -> dict[str, bytes]:
    """All objects of a bucket."""
    client = bucket.service.client()
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket.name).get("Contents", ())]
    return {key: client.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}


async def test_an_object(it: TaskWorld, bucket: Bucket) -> None:
    bucket.write("d/a b+é?.txt", b"hello")
    task = await fetched(it, f"s3://{bucket.name}/d/a b+é?.txt")
    assert await content(it, task) == {"a b+é?.txt": b"hello"}
    again = await fetched(it, f"s3://{bucket.name}/d/a b+é?.txt")
    assert await mount(it, again) == await mount(it, task)


async def test_a_prefix(it: TaskWorld, bucket: Bucket) -> None:
    for key in ("d/a", "d/e/f", "d/empty/", "dd", "d/"):
        bucket.write(key, key.encode() if not key.endswith("/") else b"")
    task = await fetched(it, f"s3://{bucket.name}/d", type="DIRECTORY")
    assert await content(it, task) == {"a": b"d/a", "e/f": b"d/e/f"}
    first = await mount(it, task)
    bucket.write("d/a", b"changed")
    assert await mount(it, await fetched(it, f"s3://{bucket.name}/d/", type="DIRECTORY")) != first


async def test_many_objects(it: TaskWorld, bucket: Bucket) -> None:
    for number in range(1005):
        bucket.write(f"many/{number}", b"x")
    task = await fetched(it, f"s3://{bucket.name}/many/", type="DIRECTORY")
    assert len(await content(it, task)) == 1005


@pytest.mark.parametrize(
    ("key", "type", "text"),
    [("none", "FILE", "no such object (NoSuchKey)"), ("none", "DIRECTORY", "nothing below it"),
     ("odd", "DIRECTORY", "a key is no path")],
)  # fmt: skip
async def test_what_cannot_be_fetched(
    it: TaskWorld, bucket: Bucket, key: str, type: str, text: str
) -> None:
    bucket.write("odd/a//b", b"")
    task = await fetched(it, f"s3://{bucket.name}/{key}", type=type)
    assert await it.state(task) == "SYSTEM_ERROR"
    assert text in (await logs(it, task))[0]


async def test_outputs(it: TaskWorld, bucket: Bucket) -> None:
    task = await delivered(
        it,
        {"path": "/out/a.txt", "url": f"s3://{bucket.name}/one"},
        {"path": "/out/d", "url": f"s3://{bucket.name}/all/", "type": "DIRECTORY"},
        {"path": "/out/*.txt", "path_prefix": "/out", "url": f"s3://{bucket.name}/texts"},
    )
    assert task["state"] == "COMPLETE"
    assert stored(bucket) == {
        "one": b"one",
        "all/c.txt": b"three",
        "all/e/f": b"four",
        "texts/a.txt": b"one",
        "texts/b.txt": b"two",
    }
    assert {one["url"] for one in task["logs"][0]["outputs"]} >= {f"s3://{bucket.name}/all/e/f"}


async def test_outputs_without_a_bucket(it: TaskWorld) -> None:
    await credential(it, make_bucket(), "missing-bucket")
    task = await delivered(it, {"path": "/out/a.txt", "url": "s3://missing-bucket/one"})
    assert task["state"] == "SYSTEM_ERROR"
    assert "NoSuchBucket" in " ".join(task["logs"][0]["system_logs"])


KEY = AccessKey(key_id="test", secret="test")


def opened(http: OutsideHttp, bucket: Bucket, it: TaskWorld) -> S3Bucket:
    place = BucketPlace(bucket=bucket.name, endpoint=bucket.service.endpoint)
    key = AccessKey(key_id=bucket.service.key, secret=bucket.service.secret)
    return S3Bucket(http, place, key, clock=it.world.clock)


def outgoing(it: TaskWorld, *parts: bytes) -> OutgoingFile:
    transport = AsgiTransport(WithBlocks(it.world))
    blocks = BlockClient(transport, it.world.admin, retry=NO_RETRY)
    segments = tuple(Segment(it.world.blocks.put(one), 0, len(one)) for one in parts)
    return OutgoingFile(blocks=blocks, file=File(segments), key="k")


NETWORK = OutsideNetwork(allowed=("127.0.0.0/8",))


async def test_large_objects_go_in_parts(it: TaskWorld, bucket: Bucket) -> None:
    blocks = [os.urandom(40 << 20), os.urandom(30 << 20)]
    async with OutsideHttp(NETWORK) as http:
        target = S3Target(opened(http, bucket, it), "large", make_rules())
        checksum = await target.send(outgoing(it, *blocks))
    body = b"".join(blocks)
    assert checksum == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert stored(bucket)["large"] == body
    assert (
        bucket.service.client().head_object(Bucket=bucket.name, Key="large")["ETag"].endswith('-2"')
    )


async def test_parts_that_fail_leave_nothing(it: TaskWorld, bucket: Bucket) -> None:
    file = outgoing(it, bytes(40 << 20), bytes(30 << 20))
    it.world.blocks.damaged = True
    async with OutsideHttp(NETWORK) as http:
        target = S3Target(opened(http, bucket, it), "large", make_rules())
        with pytest.raises(LadingError):
            await target.send(file)
    assert stored(bucket) == {}
    assert "Uploads" not in bucket.service.client().list_multipart_uploads(Bucket=bucket.name)


async def test_parts_of_an_object(it: TaskWorld, bucket: Bucket) -> None:
    bucket.write("a", b"abcdef")
    async with OutsideHttp(NETWORK) as http:
        source = S3Source(opened(http, bucket, it), "a")
        async with source.open(0, None) as first:
            assert dict(first.facts.checksums) == {"md5": hashlib.md5(b"abcdef").hexdigest()}
        async with source.open(4, first.facts) as rest:
            assert (rest.start, [one async for one in rest.pieces]) == (4, [b"ef"])


async def test_an_object_that_was_changed_after_its_listing(it: TaskWorld, bucket: Bucket) -> None:
    bucket.write("d/a", b"one")
    async with OutsideHttp(NETWORK) as http:
        listing = await opened(http, bucket, it).list_objects("d", make_rules())
        bucket.write("d/a", b"two")
        with pytest.raises(Invalid, match="changed after it was listed"):
            async with listing.files["a"].open(0, None):
                pass


async def test_faults_have_their_code(it: TaskWorld, server: MeanServer) -> None:
    for status, error in ((403, Forbidden), (404, NotFound), (503, PassingFault), (400, Invalid)):
        server.add("/b/k", b"", refusals=[status])
        async with OutsideHttp(NETWORK) as http:
            place = BucketPlace(bucket="b", endpoint=server.url)
            bucket = S3Bucket(http, place, KEY, clock=it.world.clock)
            with pytest.raises(error, match=f"bucket b: answered {status}"):
                await bucket.xml("GET", "k", ())


async def test_another_region_is_asked(it: TaskWorld, server: MeanServer) -> None:
    headers = {"x-amz-bucket-region": "eu-1"}
    server.add("/b/k", b"<A>x</A>", refusals=[301], headers=headers)
    async with OutsideHttp(NETWORK) as http:
        place = BucketPlace(bucket="b", endpoint=server.url)
        bucket = S3Bucket(http, place, KEY, clock=it.world.clock)
        assert await bucket.xml("GET", "k", ()) == "<A>x</A>"
    signed = [headers["authorization"] for _, _, headers in server.seen]
    assert ["/us-east-1/" in signed[0], "/eu-1/" in signed[1]] == [True, True]


def test_keys_that_cannot_be_sent() -> None:
    with pytest.raises(Forbidden):
        access_key("a\nb", "s")
    assert access_key("a", "s") == AccessKey(key_id="a", secret="s")
