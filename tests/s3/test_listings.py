from __future__ import annotations

from lading.client.transport import Response
from tests.s3.site import S3Site, code, parsed, texts


def keys(answer: Response) -> tuple[list[str], list[str]]:
    """The keys and the common prefixes of a page."""
    root = parsed(answer, "ListBucketResult")
    return texts(root, "Contents", "Key"), texts(root, "CommonPrefixes", "Prefix")


async def test_prefix_and_delimiter(here: S3Site) -> None:
    uuid = await here.files.collection({"a/x": b"", "a/y/z": b"1", "a-b": b"", "b": b""})
    query = [("list-type", "2")]
    assert keys(await here.call("GET", f"/{uuid}", query)) == (["a-b", "a/x", "a/y/z", "b"], [])
    query = [("delimiter", "/"), ("list-type", "2")]
    assert keys(await here.call("GET", f"/{uuid}", query)) == (["a-b", "b"], ["a/"])
    query += [("prefix", "a/")]
    assert keys(await here.call("GET", f"/{uuid}", query)) == (["a/x"], ["a/y/"])


async def test_pages(here: S3Site) -> None:
    uuid = await here.files.collection({f"d/{n}": b"" for n in range(5)})
    found, token = [], ""
    for _ in range(3):
        query = [("list-type", "2"), ("max-keys", "2")]
        query += [("continuation-token", token)] if token else []
        answer = await here.call("GET", f"/{uuid}", query)
        found += keys(answer)[0]
        token = parsed(answer, "ListBucketResult").value("NextContinuationToken")
    assert (found, token) == ([f"d/{n}" for n in range(5)], "")
    query = [("marker", "d/2"), ("max-keys", "1")]
    root = parsed(await here.call("GET", f"/{uuid}", query), "ListBucketResult")
    assert (texts(root, "Contents", "Key"), root.value("NextMarker")) == (["d/3"], "d/3")


async def test_encoded_keys(here: S3Site) -> None:
    uuid = await here.files.collection({"a b+ü": b""})
    query = [("encoding-type", "url"), ("list-type", "2")]
    assert keys(await here.call("GET", f"/{uuid}", query))[0] == ["a%20b%2B%C3%BC"]
    query = [("encoding-type", "other")]
    assert code(await here.call("GET", f"/{uuid}", query)) == (400, "InvalidArgument")


async def test_a_project_lists_its_collections(here: S3Site) -> None:
    world = here.files.world
    project = (await world.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
    inner = {"group_class": "project", "name": "in", "owner_uuid": project}
    inner_uuid = (await world.ok("POST", "groups", inner))["uuid"]
    await here.files.collection({"f": b"x"}, owner_uuid=project, name="one")
    await here.files.collection({"g": b"x"}, owner_uuid=inner_uuid, name="two")
    query = [("list-type", "2")]
    assert keys(await here.call("GET", f"/{project}", query))[0] == ["in/two/g", "one/f"]
    query = [("delimiter", "/"), ("list-type", "2")]
    assert keys(await here.call("GET", f"/{project}", query)) == ([], ["in/", "one/"])
    query += [("prefix", "in/two/")]
    assert keys(await here.call("GET", f"/{project}", query)) == (["in/two/g"], [])


async def test_buckets(here: S3Site) -> None:
    uuid = await here.files.collection({}, name="My data")
    await here.files.collection({}, name="plain")
    root = parsed(await here.call("GET", "/"), "ListAllMyBucketsResult")
    assert texts(root, "Buckets", "Bucket", "Name") == ["plain", uuid]
    query = [("max-buckets", "1")]
    root = parsed(await here.call("GET", "/", query), "ListAllMyBucketsResult")
    query += [("continuation-token", root.value("ContinuationToken"))]
    root = parsed(await here.call("GET", "/", query), "ListAllMyBucketsResult")
    assert texts(root, "Buckets", "Bucket", "Name") == [uuid]


async def test_versions(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x", "g": b"x"})
    query = [("max-keys", "1"), ("versions", "")]
    root = parsed(await here.call("GET", f"/{uuid}", query), "ListVersionsResult")
    assert texts(root, "Version", "VersionId") == ["null"]
    assert root.value("NextKeyMarker") == "f"
