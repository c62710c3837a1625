"""Registries of strangers, from which `lading image pull` fetches; in process."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lading.client.images.archive import Platform, read_layers
from lading.client.images.archive_members import Slice
from lading.client.images.layer_cache import LayerCache
from lading.client.images.manifests import Blob, RemoteImage
from lading.client.images.reference import parse_reference
from lading.client.images.registry import Registry
from lading.client.images.registry_access import Login
from lading.client.images.registry_addresses import check_origin
from lading.client.retry import Retries, RetryPolicy
from lading.client.transport import StreamedResponse
from lading.core.errors import Full, Invalid, LadingError, Malformed
from tests.client.images.images_on_disk import digest

AMD = Platform(os="linux", architecture="amd64")
NAME = parse_reference("reg.example/tools:1")
ORIGIN = "https://reg.example"
LOGIN = Login("me", "secret")
Answer = tuple[int, Mapping[str, str], Any]


class _Web:
    """Answers of all hosts, and the requests that each got."""

    def __init__(self, answer: Callable[[str, str], Answer]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    def __call__(self, origin: str) -> Any:
        @asynccontextmanager
        async def stream(
            _: str, path: str, *, headers: Mapping[str, str], **__: Any
        ) -> AsyncGenerator[StreamedResponse]:
            self.asked.append((origin, path, headers))
            status, fields, body = self.answer(origin, path)
            yield StreamedResponse(status, fields, _pieces(body))

        async def close() -> None:
            pass

        return SimpleNamespace(stream=stream, close=close)


async def _pieces(body: Any) -> AsyncGenerator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    size, pause = body
    while True:
        await asyncio.sleep(pause)
        yield bytes(size)


async def _lookup(host: str) -> list[str]:
    table = {"in.example": ["127.0.0.1"], "two.example": ["192.0.2.1", "169.254.169.254"]}
    table |= {"127.1": ["127.0.0.1"], "0x7f000001": ["127.0.0.1"], "2130706433": ["127.0.0.1"]}
    table |= {"localhost": ["::1"], "0": ["0.0.0.0"], "017700000001": ["127.0.0.1"]}
    return table.get(host, ["192.0.2.7"])


def _registry(web: _Web) -> Registry:
    retries = Retries(policy=RetryPolicy(attempts=2, base=0.0001))
    return Registry(ORIGIN, connect=web, login=LOGIN, retries=retries, lookup=_lookup)


async def _refused(web: _Web) -> LadingError:
    async with _registry(web) as registry:
        with pytest.raises(LadingError) as caught:
            await registry.resolve(NAME, platform=AMD)
    assert len(caught.value.message) <= 300
    return caught.value


ADDRESSES = (
    "https://127.0.0.1/x", "https://127.0.0.1:8443/", "https://[::1]/", "https://localhost/x",
    "https://LOCALHOST/", "https://169.254.169.254/latest/meta-data", "https://[fe80::1]/",
    "https://[::ffff:127.0.0.1]/", "https://[::ffff:169.254.169.254]/", "https://0.0.0.0/",
    "https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://017700000001/",
    "https://0/", "https://in.example/", "https://two.example/", "https://in.example:22/",
    "https://100.100.100.200/", "https://168.63.129.16/", "https://[fd00:ec2::254]/",
    "https://[64:ff9b::7f00:1]/", "https://[::]/", "//127.0.0.1/x", "//localhost:9000/x",
    "https://user:pass@blobs.example/", "https://user@blobs.example/", "https://:@blobs.example/",
    "https://reg.example@127.0.0.1/", "https://reg.example:443@evil.example/", "https://@x/",
    "http://blobs.example/x", "HTTP://blobs.example/x", "http://reg.example/v2/x", "ftp://b/x",
    "file:///etc/passwd", "gopher://b/1", "data:,x", "javascript:1", "unix:///run/docker.sock",
    "https://:443/", "https://[::1/x", "https://]/", "https://[x]/",
    "https://[fe80::1%25eth0]/", "https://b:0/", "https://b:65536/", "https://b:99999999/",
    "https://b:x/", "https://b:-1/", "https://b:/x:y@z", "https://b c/", "https://b\\@evil/",
    "https://b?@127.0.0.1\x7f/", "https://\u00e9.example/", "https://b\u3002example/", "https://b%00/",
    "https://b%2f/", "https://" + "a" * 64 + "/", "https://" + "a." * 150 + "/", "https://b..c/",
    "https://.b/", "https://b/x y", "https://b/\u00e9", "https://b/\x1b[2J", "https://b/\x00",
    "https://b/" + "x" * 20_000, "https://b\t.example/x y", "https://b;c/", "https://b,c/",
    "https://b'c/", 'https://b"c/', "https://b<c/", "https://b`c/", "https://b{c}/", "https://b|c/",
)  # fmt: skip


@pytest.mark.attack("sends a blob to the machine of the user, with credentials, or nowhere")
@pytest.mark.parametrize("address", ADDRESSES)
async def test_redirect(address: str) -> None:
    web = _Web(lambda *_: (307, {"location": address}, b""))
    error = await _refused(web)
    assert isinstance(error, Invalid), error
    assert {origin for origin, _, _ in web.asked} == {ORIGIN}


@pytest.mark.attack("asks for the login at the machine of the user, in the clear, or nowhere")
@pytest.mark.parametrize("address", [one for one in ADDRESSES if '"' not in one])
async def test_realm(address: str) -> None:
    challenge = f'Bearer realm="{address}",service="x"'
    web = _Web(lambda *_: (401, {"www-authenticate": challenge}, b""))
    error = await _refused(web)
    assert isinstance(error, Invalid), error
    assert {origin for origin, _, _ in web.asked} == {ORIGIN}


@pytest.mark.attack("has the login of a registry, or its token, sent to another host")
@pytest.mark.parametrize(
    "location",
    [
        "https://blobs.example/x", "//evil.example/x", "https://reg.example:8443/x",
        "https://reg.example.evil.example/x", "https://xreg.example/", "https://reg.example./x",
        "https://reg.example:444/v2/", "https://REG.evil/", "//reg.example:1/", "https://reg/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ['Bearer realm="https://auth.example/t"', "Basic realm=x"])
async def test_login_after_a_redirect(location: str, scheme: str) -> None:
    def answer(origin: str, path: str) -> Answer:
        if origin == "https://auth.example":
            return 200, {}, b'{"token": "t0ken"}'
        if origin == ORIGIN and len([one for one in web.asked if one[0] == ORIGIN]) == 1:
            return 401, {"www-authenticate": scheme}, b""
        # Another host asks for a login too.
        return (307, {"location": location}, b"") if origin == ORIGIN else (
            401, {"www-authenticate": scheme}, b"")  # fmt: skip

    web = _Web(answer)
    await _refused(web)
    others = [one for one in web.asked if one[0] not in (ORIGIN, "https://auth.example")]
    assert len(others) == 1
    assert "authorization" not in others[0][2]


def _config(**changes: Any) -> dict[str, Any]:
    return {"digest": f"sha256:{'0' * 64}", "size": 1, **changes}


SIZES: tuple[Any, ...] = (-1, "1", 1.5, None, [])
TYPES: tuple[Any, ...] = (
    "text/html", "\x1b]0;x\x07", "x" * 9000, 1, None,
    "application/vnd.cncf.helm.config.v1+json",
    "application/vnd.oci.empty.v1+json", "APPLICATION/VND.OCI.IMAGE.CONFIG.V1+JSON",
)  # fmt: skip
DIGESTS: tuple[Any, ...] = (
    "", "x", "sha256:", "sha256:../../../etc/passwd", "sha512:" + "0" * 128, "md5:" + "0" * 32,
    "sha256:" + "0" * 63, "sha256:" + "0" * 65, "sha256:" + "A" * 64, "sha256:" + "\u0660" * 64,
    "sha256:" + "g" * 64, "sha256:" + "0" * 63 + "\n", "SHA256:" + "0" * 64,
    " sha256:" + "0" * 64, "sha256:" + "0" * 60 + "/../", "sha256:" + "0" * 63 + "\0",
    "\x1b[2J" * 99, None, 1, [],
)  # fmt: skip
LAYERS: tuple[dict[str, Any], ...] = (
    {"urls": ["https://x/"]}, {"urls": ["file:///etc"]}, {"urls": 1}, {"urls": [1]},
    {"size": -1}, {"size": "9"}, {"digest": "sha256:../x"}, {"digest": "0" * 64},
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    [], None, 1, "x", True, {"config": 1}, {"config": []}, {"config": {}}, {"layers": {}},
    {"config": None}, {"manifests": []}, {"manifests": {}}, {"manifests": [None]},
    {"manifests": [1]}, {"manifests": [{}]}, {"schemaVersion": 1}, {"schemaVersion": "2"},
    {"schemaVersion": 10**30}, {"layers": [None]}, {"layers": None},
    {"manifests": [_config(platform={"os": "\x1b[2J" * 50})]},
    {"manifests": [_config(platform={"os": "x" * 9000, "architecture": "y" * 9000})]},
    {"manifests": [_config(platform=1)]}, {"manifests": [_config(platform={"os": 1})]},
    {"manifests": [_config(platform={"os": f"o{n}"}) for n in range(5000)]},
    *({"config": _config(size=size)} for size in SIZES),
    *({"config": _config(mediaType=one)} for one in TYPES),
    *({"config": _config(digest=one)} for one in DIGESTS),
    *({"config": _config(), "layers": [_config(**one)]} for one in LAYERS),
    {"config": _config(), "layers": [_config(size=n) for n in range(5000)]},
)  # fmt: skip
RAW = (
    b"", b"\0", b"{", b"<html>", b"\xff\xfe", b"[" * 200_000, b'{"a":' * 200_000,
    b'{"config":' * 200_000, b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"manifests":[' * 9,
    gzip.compress(b"{}", mtime=0), b"x" * (9 << 20), b" " * (9 << 20),
    b'{"config":{"digest":"\\ud800"}}',
    b'{"schemaVersion": 1e999}', b'{"layers":[' + b"{}," * 99 + b"{}]}", b"NaN", b"\xef\xbb\xbf{}",
)  # fmt: skip
DOCUMENTS = [*RAW, *(json.dumps(one).encode() for one in WRONG)]


@pytest.mark.attack("has a manifest or an index that is none, too deep, or full of control codes")
@pytest.mark.parametrize("number", range(len(DOCUMENTS)))
async def test_manifest(number: int) -> None:
    error = await _refused(_Web(lambda *_: (200, {}, DOCUMENTS[number])))
    assert isinstance(error, Malformed | Invalid), error
    assert error.message.isprintable()


@pytest.mark.attack("sends other documents than those asked for, or indexes that name each other")
@pytest.mark.parametrize("depth", range(1, 8))
async def test_nested_indexes(depth: int) -> None:
    documents = [b"{}"]
    for _ in range(depth):
        entry = _config(digest=digest(documents[-1]))
        documents.append(json.dumps({"manifests": [entry]}).encode())
    by_path = {f"/v2/tools/manifests/{digest(one)}": one for one in documents}
    web = _Web(lambda _, path: (200, {}, by_path.get(path, documents[-1])))
    error = await _refused(web)
    assert len(web.asked) <= 6
    assert ("nested too deeply" in error.message) == (depth >= 4)
    # Another document under the digest of the index's entry.
    web = _Web(lambda *_: (200, {}, documents[-1]))
    assert "was asked for" in (await _refused(web)).message


@pytest.mark.attack("answers with a token without an end, or with one that adds headers")
@pytest.mark.parametrize(
    "body",
    [
        (1 << 16, 0), b'{"token": "' + b"x" * (2 << 20) + b'"}', b"", b"[]", b"{}", b"[" * 99_999,
        b'{"token": 1}', b'{"token": ""}', b'{"token": "a\\r\\nX: y"}', b'{"token": "a b"}',
        b'{"token": "\\u00e9"}', b'{"token": "a\\u0000"}', b'{"token": "a\\u001b"}',
        b'{"token": "a\\u007f"}', b'{"access_token": ["x"]}', b'{"token": null}', b"\xff",
    ],
)  # fmt: skip
async def test_token(body: Any) -> None:
    def answer(origin: str, _: str) -> Answer:
        challenge = {"www-authenticate": 'Bearer realm="https://auth.example/t"'}
        return (401, challenge, b"") if origin == ORIGIN else (200, {}, body)

    web = _Web(answer)
    await _refused(web)
    assert len(web.asked) == 2


@pytest.mark.attack("drips a document for ever")
async def test_document_that_drips() -> None:
    web = _Web(lambda *_: (200, {}, (1, 0.01)))
    async with _registry(web) as registry:
        registry.document_time = 0.1
        with pytest.raises(Invalid, match="takes over 0.1 s for one document"):
            await registry.resolve(NAME, platform=AMD)


def _image(*layers: Blob) -> RemoteImage:
    config = Blob(digest=digest(b"c"), size=1)
    return RemoteImage(reference=NAME, digest=digest(b"m"), config=config, layers=layers)


@pytest.mark.attack("announces layers larger than the disk, so as to fill it")
@pytest.mark.parametrize("sizes", [(1 << 62,), (1 << 50, 1), tuple(1 << 40 for _ in range(900))])
async def test_layers_larger_than_the_disk(sizes: tuple[int, ...], tmp_path: Path) -> None:
    web = _Web(lambda *_: (200, {}, (1 << 20, 0)))
    layers = [Blob(digest=digest(b"%d" % n), size=size) for n, size in enumerate(sizes)]
    async with _registry(web) as registry:
        with pytest.raises(Full, match="has room for"):
            await registry.fetch(_image(*layers), LayerCache(tmp_path))
    assert web.asked == []


@pytest.mark.attack("sends a layer that is longer, shorter or other than its digest")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((status, body) for status in (200, 206) for body in (
            b"", b"x", b"data", b"datadata", b"DATA" * 9, (1 << 16, 0),
            gzip.compress(b"data", mtime=0))),
        *((status, b"") for status in (
            100, 204, 301, 302, 304, 400, 401, 403, 404, 410, 416, 418, 429, 500, 503, 599)),
    ],
)  # fmt: skip
async def test_layer(status: int, body: Any, tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    layer = Blob(digest=digest(b"good"), size=4)
    async with _registry(_Web(lambda *_: (status, {}, body))) as registry:
        with pytest.raises(LadingError) as caught:
            await registry.fetch(_image(layer), cache)
    assert not cache.has(layer.digest)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 4
    assert len(caught.value.message) <= 300


@pytest.mark.attack("takes nine tenths of what is left of the disk with each of its layers")
def test_many_layers_that_expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(bytes(1 << 20)))
    layer = Slice(packed, 0, packed.stat().st_size)
    members = SimpleNamespace(source="x", find=lambda _: layer)
    free = 3 << 20

    def usage(_: Path) -> Any:
        taken = sum(path.stat().st_size for path in tmp_path.glob("layer-*"))
        return SimpleNamespace(free=free - taken)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    names = [str(number) for number in range(9)]
    found = digest(bytes(1 << 20))
    with pytest.raises(Full):
        read_layers(members, names, [found] * 9, tmp_path)
    assert usage(tmp_path).free >= free // 10


REFERENCES = (
    "", " ", "a b", "A/b", "reg.example/", "reg.example/A", "reg.example/a:", "a:b c", "a:b/c",
    "reg.example/../x", "reg.example/a/../b", "reg.example/a//b", "-x", "a:-b", "a?b", "a#b",
    "https://reg.example/a", "reg.example/a@sha256:x", "a@md5:" + "0" * 64, "a\nb", "a\0", "a\\b",
    "a@sha256:" + "0" * 63, "user@reg.example/a", "user:pass@reg.example/a", "a%2fb", "\u00e9",
    "reg.example:x/a", "reg.example:/a", "reg.example:123456/a", "[::1/a", "[x]/a", "--help", ".",
    "a:" + "x" * 129, "a:\u0660", "reg.example/\x1b[2J", "a:b\n", "reg.example\r\nX: y/a",
    "a@", ":b",
    "@sha256:" + "0" * 64,
)  # fmt: skip


@pytest.mark.attack("names an image so that a path or a header of the request is another")
@pytest.mark.parametrize("text", REFERENCES)
def test_reference(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_reference(text)
    assert caught.value.message.isprintable()


@pytest.mark.attack("is refused although the registry and its blobs are on one machine")
async def test_registry_of_the_same_machine() -> None:
    await check_origin("http://127.0.0.1:9", "http://localhost:5", _lookup)
    await check_origin("https://blobs.example", ORIGIN, _lookup)
