from __future__ import annotations

import asyncio
from hashlib import md5

from lading.api.events.timers import sweep
from lading.client.transport import Response
from lading.core.s3.multipart import LEAST_PART
from lading.core.s3.object_tags import joined_tag
from tests.s3.site import S3Site, code, parsed, texts

FIRST, LAST = b"a" * LEAST_PART, b"b"


async def begin(here: S3Site, path: str) -> str:
    """Begin an upload; its id."""
    answer = await here.call("POST", path, [("uploads", "")])
    return parsed(answer, "InitiateMultipartUploadResult").value("UploadId")


async def put(here: S3Site, path: str, upload: str, number: int, body: bytes) -> str:
    """Send a part; its tag."""
    query = [("partNumber", str(number)), ("uploadId", upload)]
    answer = await here.call("PUT", path, query, body=body)
    assert answer.status == 200, answer.body
    return answer.headers["etag"].strip('"')


async def complete(here: S3Site, path: str, upload: str, *parts: tuple[int, str]) -> Response:
    """Complete an upload."""
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{tag}&quot;</ETag></Part>"
        for number, tag in parts
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return await here.call("POST", path, [("uploadId", upload)], body=body)


async def test_parts_become_an_object(here: S3Site) -> None:
    uuid = await here.files.collection({})
    path = f"/{uuid}/d/big"
    upload = await begin(here, path)
    tags = await asyncio.gather(put(here, path, upload, 2, LAST), put(here, path, upload, 1, FIRST))
    query = [("uploads", "")]
    root = parsed(await here.call("GET", f"/{uuid}", query), "ListMultipartUploadsResult")
    assert texts(root, "Upload", "UploadId") == [upload]
    root = parsed(await here.call("GET", path, [("uploadId", upload)]), "ListPartsResult")
    assert texts(root, "Part", "PartNumber") == ["1", "2"]
    answer = await complete(here, path, upload, (1, tags[1]), (2, tags[0]))
    hashes = [md5(data, usedforsecurity=False).hexdigest() for data in (FIRST, LAST)]
    assert parsed(answer, "CompleteMultipartUploadResult").value("ETag").strip('"') == joined_tag(
        hashes
    )
    assert (await here.call("GET", path)).body == FIRST + LAST
    again = await complete(here, path, upload, (1, tags[1]), (2, tags[0]))
    assert again.status == 200, "the client may have lost the answer"
    root = parsed(await here.call("GET", f"/{uuid}", query), "ListMultipartUploadsResult")
    assert texts(root, "Upload", "UploadId") == []
    assert await here.files.tree(uuid) == ["d/", "d/big"]


async def test_what_completes_nothing(here: S3Site) -> None:
    uuid = await here.files.collection({})
    path = f"/{uuid}/big"
    upload = await begin(here, path)
    tag = await put(here, path, upload, 1, b"small")
    last = await put(here, path, upload, 2, b"x")
    assert code(await complete(here, path, upload)) == (400, "MalformedXML")
    answer = await complete(here, path, upload, (2, last), (1, tag))
    assert code(answer) == (400, "InvalidPartOrder")
    answer = await complete(here, path, upload, (1, tag), (2, last))
    assert code(answer) == (400, "EntityTooSmall")
    assert code(await complete(here, path, upload, (1, last))) == (400, "InvalidPart")
    assert code(await complete(here, path, uuid, (1, tag))) == (404, "NoSuchUpload")
    assert await here.files.tree(uuid) == []


async def test_an_upload_is_aborted(here: S3Site) -> None:
    uuid = await here.files.collection({})
    path = f"/{uuid}/big"
    upload = await begin(here, path)
    assert (await here.call("DELETE", path, [("uploadId", upload)])).status == 204
    assert code(await here.call("DELETE", path, [("uploadId", upload)])) == (404, "NoSuchUpload")
    query = [("partNumber", "1"), ("uploadId", upload)]
    assert code(await here.call("PUT", path, query, body=b"x")) == (404, "NoSuchUpload")


async def test_an_upload_is_of_one_key(here: S3Site) -> None:
    uuid = await here.files.collection({})
    upload = await begin(here, f"/{uuid}/one")
    query = [("partNumber", "1"), ("uploadId", upload)]
    answer = await here.call("PUT", f"/{uuid}/other", query, body=b"x")
    assert code(answer) == (404, "NoSuchUpload")
    # The collection of a user is no upload.
    query = [("uploadId", uuid)]
    assert code(await here.call("DELETE", f"/{uuid}/one", query)) == (404, "NoSuchUpload")


async def test_an_upload_expires(here: S3Site) -> None:
    uuid = await here.files.collection({})
    path = f"/{uuid}/big"
    upload = await begin(here, path)
    record = await here.files.world.ok("GET", f"collections/{upload}")
    assert record["trash_at"] is not None
    here.files.world.clock.advance(8 * 86_400)
    await sweep(here.files.world.app.services)
    query = [("partNumber", "1"), ("uploadId", upload)]
    assert code(await here.call("PUT", path, query, body=b"x")) == (404, "NoSuchUpload")


async def test_parts_are_copied(here: S3Site) -> None:
    uuid = await here.files.collection({"source": b"0123456789"})
    path = f"/{uuid}/big"
    upload = await begin(here, path)
    query = [("partNumber", "1"), ("uploadId", upload)]
    headers = {
        "x-amz-copy-source": f"/{uuid}/source",
        "x-amz-copy-source-range": "bytes=2-4",
    }
    answer = await here.call("PUT", path, query, headers=headers)
    tag = parsed(answer, "CopyPartResult").value("ETag").strip('"')
    assert (await complete(here, path, upload, (1, tag))).status == 200
    assert (await here.call("GET", path)).body == b"234"
    headers["x-amz-copy-source-range"] = "bytes=8-99"
    answer = await here.call("PUT", path, query, headers=headers)
    assert code(answer)[0] in (400, 404)


async def test_what_a_client_expects_of_the_whole_object(here: S3Site) -> None:
    uuid = await here.files.collection({})
    path = f"/{uuid}/big"
    upload = await begin(here, path)
    query = [("partNumber", "1"), ("uploadId", upload)]
    tag = (await here.call("PUT", path, query, body=b"x")).headers["etag"]
    body = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
    ).encode()
    for headers, refusal in (
        ({"x-amz-mp-object-size": "2"}, (400, "InvalidRequest")),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, (501, "NotImplemented")),
    ):
        answer = await here.call("POST", path, query[1:], headers=headers, body=body)
        assert code(answer) == refusal
    assert await here.files.tree(uuid) == []
    headers = {"x-amz-mp-object-size": "1"}
    assert (await here.call("POST", path, query[1:], headers=headers, body=body)).status == 200


async def test_an_upload_that_is_not_there_makes_no_collection(here: S3Site) -> None:
    world = here.files.world
    project = (await world.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
    answer = await complete(here, f"/{project}/new/f", "zzzzz-4zz18-000000000000999", (1, "a"))
    assert code(answer) == (404, "NoSuchUpload")
    assert await world.collections(filters=[["owner_uuid", "=", project]]) == []
