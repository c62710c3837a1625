from __future__ import annotations

from hashlib import md5

import pytest

from tests.s3.site import S3Site, code


async def test_an_object_in_whole_and_in_part(here: S3Site) -> None:
    uuid = await here.files.collection({"a/b.txt": b"0123456789"})
    answer = await here.call("GET", f"/{uuid}/a/b.txt")
    tag = md5(b"0123456789", usedforsecurity=False).hexdigest()
    assert (answer.status, answer.body) == (200, b"0123456789")
    assert answer.headers["etag"] == f'"{tag}"'
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    answer = await here.call("GET", f"/{uuid}/a/b.txt", headers={"range": "bytes=2-4"})
    assert (answer.status, answer.body) == (206, b"234")
    assert answer.headers["content-range"] == "bytes 2-4/10"
    answer = await here.call("HEAD", f"/{uuid}/a/b.txt")
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "10", b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": '"TAG"'}, 304),
        ({"if-none-match": "TAG"}, 304),
        ({"if-match": '"TAG"'}, 200),
        ({"if-match": '"other"'}, 412),
        ({"range": "bytes=99-"}, 416),
        ({"range": "bytes=0-0,4-5"}, 200),
    ],
)
async def test_conditions(here: S3Site, headers: dict[str, str], status: int) -> None:
    uuid = await here.files.collection({"f": b"0123456789"})
    tag = md5(b"0123456789", usedforsecurity=False).hexdigest()
    sent = {name: value.replace("TAG", tag) for name, value in headers.items()}
    assert (await here.call("GET", f"/{uuid}/f", headers=sent)).status == status


async def test_absent_keys(here: S3Site) -> None:
    uuid = await here.files.collection({"a/f": b"x"})
    for key in ("b", "a", "a/f/", "a/f/g", "../a/f", "a//f"):
        assert code(await here.call("GET", f"/{uuid}/{key}")) == (404, "NoSuchKey"), key
    answer = await here.call("GET", "/zzzzz-4zz18-000000000000999/f")
    assert code(answer) == (404, "NoSuchBucket")
    answer = await here.call("GET", f"/{uuid}/a/")
    assert (answer.status, answer.body) == (200, b"")


async def test_a_content_is_a_bucket(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    pdh = (await here.files.pdh(uuid)).replace("+", "-")
    assert (await here.call("GET", f"/{pdh}/f")).body == b"x"
    assert code(await here.call("PUT", f"/{pdh}/f", body=b"y")) == (403, "AccessDenied")


async def test_headers_that_the_signer_chooses(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    query = [("response-content-type", "text/html"), ("response-expires", "0")]
    answer = await here.call("GET", f"/{uuid}/f", query)
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    answer = await here.call("GET", f"/{uuid}/f", [("response-expires", "a\r\nb: c")])
    assert code(answer) == (400, "InvalidArgument")


async def test_a_range_of_an_earlier_object_is_the_whole_one(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"0123456789"})
    tag = md5(b"0123456789", usedforsecurity=False).hexdigest()
    for sent, status, body in (("other", 200, b"0123456789"), (tag, 206, b"56789")):
        headers = {"range": "bytes=5-", "if-range": f'"{sent}"'}
        answer = await here.call("GET", f"/{uuid}/f", headers=headers)
        assert (answer.status, answer.body) == (status, body)
