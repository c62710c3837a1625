"""GET and HEAD: ranges, conditions, what a browser may do with a file, directories and archives."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest

from lading.core.errors import Unavailable
from tests.webdav.site import Site

DATA = bytes(range(256)) * 4


async def test_a_file(here: Site) -> None:
    uuid = await here.collection({"f.txt": DATA, "empty": b""})
    answer = await here.call("GET", f"/c={uuid}/f.txt")
    assert (answer.status, answer.body) == (200, DATA)
    headers = answer.headers
    assert (headers["content-length"], headers["accept-ranges"]) == ("1024", "bytes")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["last-modified"].endswith("GMT")
    head = await here.call("HEAD", f"/c={uuid}/f.txt", headers={"range": "bytes=0-1"})
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "1024")
    assert head.headers["etag"] == headers["etag"]
    empty = await here.call("GET", f"/c={uuid}/empty")
    assert (empty.status, empty.body, empty.headers["content-length"]) == (200, b"", "0")
    assert (
        "last-modified" not in (await here.call("GET", f"/c={await here.pdh(uuid)}/f.txt")).headers
    )


@pytest.mark.parametrize(
    ("wanted", "status", "content", "body"),
    [
        ("bytes=0-3", 206, "bytes 0-3/1024", DATA[:4]),
        ("bytes=1020-", 206, "bytes 1020-1023/1024", DATA[1020:]),
        ("bytes=-5", 206, "bytes 1019-1023/1024", DATA[-5:]),
        ("bytes=-5000", 206, "bytes 0-1023/1024", DATA),
        ("bytes=1000-9999", 206, "bytes 1000-1023/1024", DATA[1000:]),
        ("bytes=0-3,2-9", 206, "bytes 0-9/1024", DATA[:10]),
        ("bytes=1024-", 416, "bytes */1024", None),
        ("bytes=-0", 416, "bytes */1024", None),
        ("bytes=5-2", 200, None, DATA),
        ("lines=1-2", 200, None, DATA),
        ("bytes=x", 200, None, DATA),
    ],
)
async def test_ranges(
    here: Site, wanted: str, status: int, content: str | None, body: bytes | None
) -> None:
    uuid = await here.collection({"f": DATA})
    answer = await here.call("GET", f"/c={uuid}/f", headers={"range": wanted})
    assert (answer.status, answer.headers.get("content-range")) == (status, content)
    assert body is None or answer.body == body


async def test_several_ranges(here: Site) -> None:
    uuid = await here.collection({"f": DATA})
    answer = await here.call("GET", f"/c={uuid}/f", headers={"range": "bytes=500-502, 0-1,-1"})
    kind, _, boundary = answer.headers["content-type"].partition("; boundary=")
    assert (answer.status, kind) == (206, "multipart/byteranges")
    assert answer.headers["content-length"] == str(len(answer.body))
    parts = answer.body.split(b"--" + boundary.encode())[1:-1]
    assert [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts] == [
        DATA[:2], DATA[500:503], DATA[-1:],
    ]  # fmt: skip
    assert b"Content-Range: bytes 500-502/1024" in parts[1]


async def test_conditions(here: Site) -> None:
    path = f"/c={await here.collection({'f': DATA})}/f"
    first = (await here.call("GET", path)).headers
    tag, date = first["etag"], first["last-modified"]
    for spared in ({"if-none-match": tag}, {"if-none-match": "*"}, {"if-modified-since": date}):
        answer = await here.call("GET", path, headers=spared)
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    for refused in ({"if-match": '"x"'}, {"if-unmodified-since": "Thu, 01 Jan 1970 00:00:00 GMT"}):
        assert (await here.call("GET", path, headers=refused)).status == 412
    part = {"range": "bytes=0-1"}
    for same in (tag, date):
        assert (await here.call("GET", path, headers={**part, "if-range": same})).status == 206
    for other in ('"x"', f"W/{tag}", "Thu, 01 Jan 1970 00:00:00 GMT", "nonsense"):
        assert (await here.call("GET", path, headers={**part, "if-range": other})).status == 200


async def test_what_users_put_there_runs_nowhere(here: Site) -> None:
    uuid = await here.collection(
        {"x.html": b"<script>", "x.svg": b"<svg>", "x.txt": b"<script>", "x.png": b"p"}
    )
    for name in ("x.html", "x.svg"):
        headers = (await here.call("GET", f"/c={uuid}/{name}")).headers
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
    for name in ("x.txt", "x.png"):
        headers = (await here.call("GET", f"/c={uuid}/{name}")).headers
        assert "content-security-policy" not in headers
        assert headers["x-content-type-options"] == "nosniff"
    headers = (await here.call("GET", f"/c={uuid}/x.html?disposition=attachment")).headers
    assert headers["content-disposition"] == 'attachment; filename="x.html"'


async def test_a_directory_as_a_page(here: Site) -> None:
    uuid = await here.collection({"d/<b>&.txt": b"x" * 2000, "d/e/f": b"", "a": b""}, name='"<n>')
    answer = await here.call("GET", f"/c={uuid}/d", headers={"accept": "text/html"})
    assert (answer.status, answer.headers["location"]) == (302, f"/c={uuid}/d/")
    answer = await here.call("GET", f"/c={uuid}/d/")
    page = answer.body.decode()
    assert (
        f'<a href="/c={uuid}/d/%3Cb%3E%26.txt">&lt;b&gt;&amp;.txt</a></td><td>2.0 KiB</td>' in page
    )
    assert f'<a href="/c={uuid}/d/e/">e/</a>' in page
    assert "&quot;&lt;n&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "1 directory, 1 file of 2.0 KiB" in page
    assert "script" not in answer.headers["content-security-policy"]
    empty = await here.call("GET", f"/c={await here.collection({})}/")
    assert b"Nothing is in this directory." in empty.body


@pytest.mark.parametrize("how", ["?format=json", "accept"])
async def test_a_directory_as_json(here: Site, how: str) -> None:
    uuid = await here.collection({"d/f": b"xyz", "d/e/g": b""})
    headers = {"accept": "application/json"} if how == "accept" else {}
    answer = await here.call("GET", f"/c={uuid}/d{'' if headers else how}", headers=headers)
    assert json.loads(answer.body) == {
        "collection": uuid,
        "portable_data_hash": await here.pdh(uuid),
        "path": "d",
        "items": [{"name": "e", "type": "directory"}, {"name": "f", "type": "file", "size": 3}],
    }


async def test_archives(here: Site) -> None:
    files = {"d/a": b"first", "d/ü b": b"", "d/e/c": DATA, "other": b"o"}
    uuid = await here.collection(files, name="My data")
    answer = await here.call("GET", f"/c={uuid}/?format=zip")
    assert answer.headers["content-disposition"] == 'attachment; filename="My data.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.testzip() is None
        assert {
            name: archive.read(name) for name in archive.namelist() if not name.endswith("/")
        } == files
    answer = await here.call("GET", f"/c={uuid}/d", headers={"accept": "application/x-tar"})
    with tarfile.open(fileobj=io.BytesIO(answer.body), mode="r:") as found:
        assert found.getnames() == ["d", "d/a", "d/e", "d/e/c", "d/ü b"]
        content = found.extractfile("d/e/c")
        assert content is not None
        assert content.read() == DATA
    assert (await here.call("HEAD", f"/c={uuid}/d/?format=tar")).body == b""
    assert (await here.call("GET", f"/c={uuid}/?format=rar")).status == 400
    assert (await here.call("GET", f"/c={uuid}/?accept=application/zip")).body[:2] == b"PK"


async def test_a_block_that_is_gone_or_damaged(here: Site) -> None:
    uuid = await here.collection({"a": b"first", "b": b"data", "c": b"more"})
    gone, rotten = here.world.blocks.put(b"data")[:32], here.world.blocks.put(b"more")[:32]
    await here.volume.discard(gone, (await here.volume.head(gone)).mtime_ns)
    async for one in here.volume.discarded():
        await here.volume.delete(one.hash, one.discarded_ns)
    here.volume.rot(rotten)
    for name, block, status in (("b", gone, 404), ("c", rotten, 502)):
        answer = await here.call("GET", f"/c={uuid}/{name}")
        assert (answer.status, block in answer.body.decode()) == (status, True)
    with pytest.raises(Unavailable, match="before its answer was complete"):
        await here.call("GET", f"/c={uuid}/?format=zip")
    assert (await here.call("HEAD", f"/c={uuid}/b")).status == 200
