from __future__ import annotations

import asyncio
import base64
import zlib
from hashlib import md5

import pytest

from lading.core.s3.xml_documents import parse_document
from tests.s3.site import S3Site, code, parsed, texts


async def test_put_get_delete(here: S3Site) -> None:
    uuid = await here.files.collection({"kept": b"k"})
    answer = await here.call("PUT", f"/{uuid}/a/b c.txt", body=b"hello")
    assert answer.status == 200
    assert answer.headers["etag"] == f'"{md5(b"hello", usedforsecurity=False).hexdigest()}"'
    assert (await here.call("GET", f"/{uuid}/a/b c.txt")).body == b"hello"
    assert (await here.call("DELETE", f"/{uuid}/a/b c.txt")).status == 204
    assert (await here.call("DELETE", f"/{uuid}/a/b c.txt")).status == 204
    assert await here.files.tree(uuid) == ["kept"], "the directory goes with its last key"


@pytest.mark.parametrize("key", ["../up", "a/../../b", "/x", "a//b", "./a", "a/.", "n" * 300])
async def test_keys_that_no_file_can_have(here: S3Site, key: str) -> None:
    uuid = await here.files.collection({})
    assert code(await here.call("PUT", f"/{uuid}/{key}", body=b"x")) == (400, "InvalidArgument")
    assert await here.files.tree(uuid) == []


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, "BadDigest"),
        ({"content-md5": "short"}, "InvalidDigest"),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"),
        ({"x-amz-checksum-crc99": "AAAAAA=="}, "InvalidRequest"),
    ],
)
async def test_a_body_that_is_not_as_it_says(
    here: S3Site, headers: dict[str, str], refusal: str
) -> None:
    uuid = await here.files.collection({"f": b"old"})
    assert code(await here.call("PUT", f"/{uuid}/f", headers=headers, body=b"x")) == (400, refusal)
    assert (await here.call("GET", f"/{uuid}/f")).body == b"old"


async def test_checksums_that_match(here: S3Site) -> None:
    uuid = await here.files.collection({})
    crc = base64.b64encode(zlib.crc32(b"x").to_bytes(4)).decode()
    headers = {
        "content-md5": base64.b64encode(md5(b"x", usedforsecurity=False).digest()).decode(),
        "x-amz-checksum-crc32": crc,
    }
    answer = await here.call("PUT", f"/{uuid}/f", headers=headers, body=b"x")
    assert (answer.status, answer.headers["x-amz-checksum-crc32"]) == (200, crc)


async def test_only_one_of_many_creates_a_key(here: S3Site) -> None:
    uuid = await here.files.collection({})
    headers = {"if-none-match": "*"}
    answers = await asyncio.gather(
        *(here.call("PUT", f"/{uuid}/f", headers=headers, body=b"%d" % n) for n in range(5))
    )
    assert sorted(answer.status for answer in answers) == [200, 412, 412, 412, 412]


async def test_a_key_is_replaced_only_where_it_is(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    tag = md5(b"x", usedforsecurity=False).hexdigest()
    for key, sent, status in (("f", "other", 412), ("none", tag, 404), ("f", tag, 200)):
        headers = {"if-match": f'"{sent}"'}
        answer = await here.call("PUT", f"/{uuid}/{key}", headers=headers, body=b"y")
        assert answer.status == status


async def test_writers_of_other_keys_lose_nothing(here: S3Site) -> None:
    uuid = await here.files.collection({})
    await asyncio.gather(*(here.call("PUT", f"/{uuid}/{n}", body=b"x") for n in range(5)))
    assert await here.files.tree(uuid) == ["0", "1", "2", "3", "4"]


async def test_files_and_directories_exclude_each_other(here: S3Site) -> None:
    uuid = await here.files.collection({"a/f": b"x"})
    answer = await here.call("PUT", f"/{uuid}/a", body=b"x")
    assert code(answer) == (409, "ObjectExistsAsDirectory")
    answer = await here.call("PUT", f"/{uuid}/a/f/g", body=b"x")
    assert code(answer) == (409, "ParentIsObject")
    answer = await here.call("PUT", f"/{uuid}/a/f/g/", body=b"")
    assert code(answer) == (409, "ParentIsObject")


async def test_directories_as_objects(here: S3Site) -> None:
    uuid = await here.files.collection({})
    assert (await here.call("PUT", f"/{uuid}/d/e/")).status == 200
    assert (await here.call("PUT", f"/{uuid}/d/e/")).status == 200
    assert await here.files.tree(uuid) == ["d/", "d/e/"]
    assert code(await here.call("PUT", f"/{uuid}/d/", body=b"x"))[0] == 400
    assert (await here.call("DELETE", f"/{uuid}/d/")).status == 204
    assert await here.files.tree(uuid) == ["d/", "d/e/"], "it is not empty"
    assert (await here.call("DELETE", f"/{uuid}/d/e/")).status == 204
    assert await here.files.tree(uuid) == []


async def test_copies(here: S3Site) -> None:
    source = await here.files.collection({"a b": b"x"})
    target = await here.files.collection({})
    headers = {"x-amz-copy-source": f"/{source}/a%20b"}
    answer = await here.call("PUT", f"/{target}/c", headers=headers)
    tag = md5(b"x", usedforsecurity=False).hexdigest()
    assert texts(parsed(answer, "CopyObjectResult"), "ETag") == [f'"{tag}"']
    assert (await here.call("GET", f"/{target}/c")).body == b"x"
    answer = await here.call("PUT", f"/{source}/a b", headers=headers)
    assert code(answer) == (400, "InvalidRequest"), "onto itself"
    headers["x-amz-copy-source-if-match"] = "other"
    answer = await here.call("PUT", f"/{target}/d", headers=headers)
    assert code(answer) == (412, "PreconditionFailed")


async def test_many_keys_are_deleted_at_once(here: S3Site) -> None:
    uuid = await here.files.collection({"a/f": b"x", "a/g": b"x", "b": b"x"})
    body = b"".join(
        b"<Object><Key>%s</Key></Object>" % key for key in (b"a/f", b"a/g", b"none", b"../b")
    )
    answer = await here.call(
        "POST", f"/{uuid}", [("delete", "")], body=b"<Delete>%s</Delete>" % body
    )
    deleted = texts(parsed(answer, "DeleteResult"), "Deleted", "Key")
    assert sorted(deleted) == ["../b", "a/f", "a/g", "none"]
    assert await here.files.tree(uuid) == ["b"]


async def test_conditions_of_deletions_are_not_ignored(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    headers = {"x-amz-if-match-size": "9"}
    answer = await here.call("DELETE", f"/{uuid}/f", headers=headers)
    assert code(answer) == (501, "NotImplemented")
    body = b"<Delete><Object><Key>f</Key><ETag>other</ETag></Object></Delete>"
    answer = await here.call("POST", f"/{uuid}", [("delete", "")], body=body)
    assert code(answer) == (501, "NotImplemented")
    answer = await here.call("DELETE", f"/{uuid}/f", headers={"if-match": "other"})
    assert code(answer) == (412, "PreconditionFailed")
    assert await here.files.tree(uuid) == ["f"]


async def test_buckets_are_made_and_deleted(here: S3Site) -> None:
    assert (await here.call("PUT", "/results")).status == 200
    assert code(await here.call("PUT", "/results")) == (409, "BucketAlreadyOwnedByYou")
    assert code(await here.call("PUT", "/No")) == (400, "InvalidBucketName")
    assert (await here.call("PUT", "/results/f", body=b"x")).status == 200
    assert code(await here.call("DELETE", "/results")) == (409, "BucketNotEmpty")
    assert (await here.call("DELETE", "/results/f")).status == 204
    assert (await here.call("DELETE", "/results")).status == 204
    assert (await here.call("HEAD", "/results")).status == 404


async def test_a_project_is_a_bucket_of_collections(here: S3Site) -> None:
    made = await here.files.world.ok(
        "POST", "groups", {"group_class": "project", "name": "project"}
    )
    project = made["uuid"]
    assert (await here.call("PUT", f"/{project}/new/a/f", body=b"x")).status == 200
    assert (await here.call("GET", f"/{project}/new/a/f")).body == b"x"
    assert (await here.call("GET", "/project/new/a/f")).body == b"x", "by its name"
    assert code(await here.call("PUT", f"/{project}/f", body=b"x")) == (400, "InvalidArgument")
    assert (await here.call("DELETE", f"/{project}/new/a/f")).status == 204


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "body"),
    [
        ("PUT", "/new/../x", "", {}, b"x"),
        ("PUT", "/new/f", "", {"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, b"x"),
        ("PUT", "/new/f", "", {"if-match": "x"}, b"x"),
        ("PUT", "/new/d/", "", {}, b"x"),
        ("PUT", "/new/f", "", {"x-amz-copy-source": "/none/f"}, b""),
        ("PUT", "/new/f", "", {"x-amz-copy-source": "/SOURCE/f", "if-match": "x"}, b""),
        ("POST", "/new/d/", "uploads", {}, b""),
        ("POST", "/new/../d", "uploads", {}, b""),
        ("DELETE", "/new/f", "", {"if-match": "x"}, b""),
    ],
)
async def test_a_refused_write_makes_no_collection(
    here: S3Site, method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    world = here.files.world
    project = (await world.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
    source = await here.files.collection({"f": b"x"})
    sent = {name: value.replace("SOURCE", source) for name, value in headers.items()}
    pairs = [(query, "")] if query else []
    answer = await here.call(method, f"/{project}{path}", pairs, headers=sent, body=body)
    assert answer.status in (400, 404), answer.body
    assert await world.collections(filters=[["owner_uuid", "=", project]]) == []
    assert (await here.call("PUT", f"/{project}/new/f", body=b"x")).status == 200


async def test_whoever_only_reads_a_project_makes_no_collection_in_it(here: S3Site) -> None:
    world = here.files.world
    project = (await world.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
    token = await world.user("reader")
    user = (await world.ok("GET", "users/current", token=token))["uuid"]
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": user}
    await world.ok("POST", "links", {**link, "head_uuid": project})
    key = await here.new_key(token)
    for method, query in (("PUT", []), ("POST", [("uploads", "")])):
        answer = await here.call(method, f"/{project}/new/f", query, key=key)
        assert code(answer) == (403, "AccessDenied")
    assert await world.collections(filters=[["owner_uuid", "=", project]]) == []


async def test_messages_about_strange_keys_are_short(here: S3Site) -> None:
    key, uuid = "\U000e0001" * 200, await here.files.collection({})
    for answer in (
        await here.call("GET", f"/{uuid}/{key}"),
        await here.call("GET", f"/{key}"),
        await here.call("PUT", f"/{uuid}/a/../{key}"),
    ):
        assert len(parse_document(answer.body, "Error").value("Message")) <= 300


@pytest.mark.parametrize(
    ("name", "value"), [("x-amz-write-offset-bytes", "10"), ("x-amz-expected-bucket-owner", "1")]
)
async def test_a_header_that_changes_the_call_is_refused(
    here: S3Site, name: str, value: str
) -> None:
    uuid = await here.files.collection({"f": b"0123456789"})
    answer = await here.call("PUT", f"/{uuid}/f", headers={name: value}, body=b"x")
    assert code(answer) == (501, "NotImplemented")
    assert (await here.call("GET", f"/{uuid}/f")).body == b"0123456789"


async def test_quotas_count(here: S3Site) -> None:
    world = here.files.world
    token = await world.user("saver")
    user = (await world.ok("GET", "users/current", token=token))["uuid"]
    await world.ok("POST", "quotas", {"quota": {"subject_uuid": user, "bytes_stored": 10}})
    key = await here.new_key(token)
    assert (await here.call("PUT", "/own", key=key)).status == 200
    assert (await here.call("PUT", "/own/f", body=b"x" * 10, key=key)).status == 200
    answer = await here.call("PUT", "/own/g", body=b"x", key=key)
    assert code(answer) == (400, "InvalidRequest"), answer.body
    assert b"bytes_stored" in answer.body or b"quota" in answer.body
    assert (await here.call("GET", "/own/g", key=key)).status == 404
