from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message

from lading.blobs import app as blobs_app
from lading.blobs import transfer
from lading.blobs.app import make_app
from lading.blobs.directory import DirectoryVolume
from lading.blobs.metrics import BlockMetrics
from lading.blobs.transfer_memory import Memory
from lading.blobs.volume import Volume
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.transport import Response
from lading.config.server import API
from lading.config.site import Config
from lading.config.storage import Collections
from lading.core.data import locator
from lading.core.data.locator import EMPTY_BLOCK, MAX_BLOCK
from lading.core.errors import Forbidden, Unauthenticated
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume

FOO = "acbd18db4cc2f85cedef654fccc4a4d8"
ROOT = "rootsecret"
TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"
NOW = 1_700_000_000
CONFIG = Config(Collections=Collections(BlobSigningKey="key"), SystemRootToken=ROOT)


def mounted(*volumes: Volume, clock: Callable[[], float] = lambda: NOW) -> VolumeSet:
    made = [
        VolumeMount(
            uuid=f"zzzzz-nyw5e-{number:015}",
            volume=volume,
            copies=None,
            classes=frozenset({"default", "fast"}),
        )
        for number, volume in enumerate(volumes)
    ]
    return VolumeSet(made, clock=clock)


async def _check(token: str, /, *, writing: bool) -> None:
    if token == "revoked":
        raise Unauthenticated("Not logged in")
    if token == "reader" and writing:
        raise Forbidden("Forbidden: it may only read")


class Store:
    """The application over volumes in memory, at a fixed time."""

    def __init__(self, *volumes: Volume, config: Config = CONFIG) -> None:
        self.now = float(NOW)
        self.mounts = mounted(*volumes, clock=lambda: self.now)
        self.registry = CollectorRegistry()
        app = make_app(
            self.mounts,
            config,
            clock=lambda: self.now,
            check_token=_check,
            metrics=BlockMetrics(self.registry),
        )
        self.transport = AsgiTransport(app)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        token: str = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        return await self.transport.request(method, path, headers=sent, body=body)

    async def put(self, data: bytes) -> str:
        answer = await self.ask(
            "PUT", f"/{hashlib.md5(data, usedforsecurity=False).hexdigest()}", data
        )
        assert answer.status == 200
        return answer.body.decode().strip()


@pytest.fixture
def volume() -> MemoryVolume:
    return MemoryVolume()


@pytest.fixture
def store(volume: MemoryVolume) -> Store:
    return Store(volume)


@pytest.mark.parametrize("size", [0, 3, 300_000, 3 << 20])
async def test_put_answers_a_locator_that_reads(store: Store, size: int) -> None:
    data = bytes(size)
    signed = await store.put(data)
    answer = await store.ask("GET", f"/{signed}")
    assert (answer.status, answer.body) == (200, data)
    assert answer.headers["content-length"] == str(size)


async def test_blocks_and_bytes_are_counted(store: Store) -> None:
    signed = await store.put(b"four")
    assert (await store.ask("PUT", f"/{'0' * 32}", b"other")).status == 400
    for _ in range(2):
        await store.ask("GET", f"/{signed}")
    await store.ask("HEAD", f"/{signed}")
    value = store.registry.get_sample_value
    assert value("lading_block_written_bytes_total") == 4
    assert value("lading_block_writes_total") == 1
    assert value("lading_block_read_bytes_total", {"way": "http"}) == 8
    assert value("lading_block_reads_total", {"way": "http"}) == 2
    assert value("lading_block_damaged_reads_total") == 0


async def test_the_locator_is_signed_for_the_presented_token(store: Store) -> None:
    signed = await store.put(b"foo")
    locator.verify(signed, token=TOKEN, ttl=1209600, key="key", now=NOW + 1209600)
    assert (await store.ask("GET", f"/{signed}", token="secret")).status == 400


async def test_a_block_whose_hash_its_sender_does_not_know(
    store: Store, volume: MemoryVolume
) -> None:
    answer = await store.ask("POST", "/", b"foo")
    assert (answer.status, answer.body.decode().partition("+A")[0]) == (200, f"{FOO}+3")
    assert await volume.get(FOO) == b"foo"
    assert (await store.ask("POST", "/", b"foo")).status == 200
    assert (await store.ask("POST", "/", b"foo", headers={"Authorization": ""})).status == 401


@pytest.mark.parametrize("count", [1, 2])
async def test_such_a_block_goes_where_one_with_a_known_hash_would(
    tmp_path: Path, count: int
) -> None:
    shelves = [DirectoryVolume(tmp_path / str(number)) for number in range(count)]
    store, known = Store(*shelves), Store(*shelves)
    for body in (b"foo", b"bar", b"foo"):
        assert (await store.ask("POST", "/", body)).status == 200
    kept = sorted(
        path for path in tmp_path.rglob("*") if path.is_file() and "tmp" not in path.parts[-2:]
    )
    for body in (b"foo", b"bar"):
        await known.put(body)
    assert len(kept) == 2
    assert kept == sorted(
        path for path in tmp_path.rglob("*") if path.is_file() and "tmp" not in path.parts[-2:]
    )
    for shelf in shelves:
        await shelf.close()


async def test_put_confirms_copies_and_classes(store: Store) -> None:
    headers = {"X-Keep-Desired-Replicas": "2", "X-Keep-Storage-Classes": "default, fast"}
    answer = await store.ask("PUT", f"/{FOO}", b"foo", headers=headers)
    assert answer.headers["x-keep-replicas-stored"] == "2"
    assert answer.headers["x-keep-storage-classes-confirmed"] == "default=2, fast=2"


async def test_put_confirms_one_copy_by_default(store: Store) -> None:
    answer = await store.ask("PUT", f"//{FOO}", b"foo", headers={"X-Keep-Desired-Replicas": "many"})
    assert answer.headers["x-keep-replicas-stored"] == "1"
    assert answer.headers["x-keep-storage-classes-confirmed"] == "default=1"


async def test_the_configuration_says_how_many_copies_are_the_default() -> None:
    collections = Collections(BlobSigningKey="key", DefaultReplication=2)
    answer = await Store(MemoryVolume(), config=replace(CONFIG, Collections=collections)).ask(
        "PUT", f"/{FOO}", b"foo"
    )
    assert answer.headers["x-keep-replicas-stored"] == "2"


@pytest.mark.parametrize("body", [b"bar", b"fo", b""])
async def test_put_refuses_what_does_not_match(
    store: Store, volume: MemoryVolume, body: bytes
) -> None:
    answer = await store.ask("PUT", f"/{FOO}", body)
    assert answer.status == 400
    assert (
        answer.body == f"{FOO}: the {len(body)} bytes that came do not match this hash\n".encode()
    )
    assert [stored async for stored in volume.index()] == []


async def test_put_refuses_an_announced_giant_unread(store: Store) -> None:
    answer = await store.ask(
        "PUT", f"/{FOO}", b"foo", headers={"Content-Length": str(MAX_BLOCK + 1)}
    )
    assert answer.status == 413
    assert answer.headers["connection"] == "close"


async def test_put_refuses_a_giant_that_was_not_announced(store: Store) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_BLOCK // (8 << 20) + 1):
            yield bytes(8 << 20)

    headers = {"Authorization": f"OAuth2 {TOKEN}"}
    async with store.transport.stream("PUT", f"/{FOO}", headers=headers, body=pieces()) as answer:
        assert answer.status == 413


async def test_a_full_volume_is_507(store: Store) -> None:
    answer = await Store(MemoryVolume(capacity=2)).ask("PUT", f"/{FOO}", b"foo")
    assert answer.status == 507
    assert (await Store().ask("PUT", f"/{FOO}", b"foo")).status == 507


async def test_the_next_volume_is_written_when_the_first_is_full() -> None:
    second = MemoryVolume()
    store = Store(MemoryVolume(capacity=2), second)
    signed = await store.put(b"foo")
    assert await second.get(FOO) == b"foo"
    assert (await store.ask("GET", f"/{signed}")).body == b"foo"
    assert (await store.ask("HEAD", f"/{signed}")).status == 200


async def test_a_failing_volume_is_503() -> None:
    store = Store(MemoryVolume(failures=1.0))
    for answer in (
        await store.ask("PUT", f"/{FOO}", b"foo"),
        await store.ask("GET", f"/{_signed(3)}"),
    ):
        assert answer.status == 503
        assert answer.body.decode().startswith(f"{FOO}: the volume failed")


async def test_a_disk_that_returns_errors_is_503_and_says_for_which_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = DirectoryVolume(tmp_path, reserve=0)
    store = Store(volume)
    signed = await store.put(b"foo")

    def fail(descriptor: int) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        answer = await store.ask("GET", f"/{signed}")
    assert (answer.status, answer.body) == (
        503,
        f"{FOO}: {tmp_path}: the volume failed: Input/output error\n".encode(),
    )
    await volume.close()


def _signed(size: int, *, hash: str = FOO, expiry: int = NOW + 60) -> str:
    return locator.signed(f"{hash}+{size}", token=TOKEN, expiry=expiry, ttl=1209600, key="key")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/{FOO}", 405),
        (f"/{FOO}+3", 400),
        (f"/{FOO}+3+A{'0' * 40}@7fffffff", 400),
        (f"/{_signed(3, expiry=NOW - 1)}", 401),
        (f"/{_signed(3)}", 404),
        (f"/{FOO}+x", 400),
        ("/", 404),
        ("/index/a/b", 404),
        ("/favicon.ico", 404),
    ],
)
async def test_get_refusals(store: Store, path: str, status: int) -> None:
    answer = await store.ask("GET", path)
    assert answer.status == status
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.body.count(b"\n") == 1


async def test_unknown_methods_are_400(store: Store) -> None:
    assert (await store.ask("POST", f"/{FOO}")).status == 400


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic abc"}]
)
async def test_a_token_is_asked_for(store: Store, headers: dict[str, str]) -> None:
    for method, path in (("PUT", FOO), ("GET", _signed(3)), ("HEAD", _signed(3))):
        assert (await store.transport.request(method, f"/{path}", headers=headers)).status == 401


async def test_a_revoked_token_is_401(store: Store) -> None:
    assert (await store.ask("PUT", f"/{FOO}", b"foo", token="revoked")).status == 401


async def test_a_token_that_may_read_may_not_write(store: Store) -> None:
    signed = await store.put(b"foo")
    for method, path in (("PUT", f"/{hashlib.md5(b'bar').hexdigest()}"), ("POST", "/")):
        reply = await store.ask(method, path, b"bar", token="reader")
        assert (reply.status, reply.body) == (403, b"Forbidden: it may only read\n")
    assert (await store.ask("GET", f"/{signed}")).status == 200
    assert (await store.ask("GET", f"/{FOO}+3", token="reader")).status == 400


async def test_a_damaged_block_is_502_unless_another_volume_has_it_whole(
    volume: MemoryVolume,
) -> None:
    second = MemoryVolume()
    store = Store(volume, second)
    signed = await store.put(b"foo")
    volume.rot(FOO)
    assert (await store.ask("GET", f"/{signed}")).status == 502
    await second.put(FOO, b"foo")
    assert (await store.ask("GET", f"/{signed}")).body == b"foo"


async def test_head_needs_no_size_and_sends_no_bytes(store: Store) -> None:
    signed = await store.put(b"foo")
    unsized = signed.replace("+3", "")
    for path in (signed, unsized):
        answer = await store.ask("HEAD", f"/{path}")
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "3")
    assert (await store.ask("HEAD", f"/{_signed(3, hash='f' * 32)}")).status == 404


async def test_head_of_a_failing_volume_is_503(volume: MemoryVolume) -> None:
    store = Store(volume)
    volume.failures = 1.0
    assert (await store.ask("HEAD", f"/{_signed(3)}")).status == 503


async def test_a_fresh_signature_on_request(store: Store) -> None:
    signed = await store.put(b"foo")
    store.now += 1000
    answer = await store.ask(
        "HEAD", f"/{signed}", headers={"X-Keep-Signature": "local, 2026-01-01"}
    )
    fresh = answer.headers["x-keep-locator"]
    assert fresh != signed
    locator.verify(fresh, token=TOKEN, ttl=1209600, key="key", now=NOW + 1209600 + 1000)


async def test_the_empty_block_is_always_there(store: Store) -> None:
    answer = await store.ask("GET", f"/{EMPTY_BLOCK}")
    assert (answer.status, answer.body) == (200, b"")


async def test_without_signing_a_bare_locator_reads() -> None:
    store = Store(
        MemoryVolume(),
        config=Config(Collections=Collections(BlobSigning=False, BlobSigningKey="key")),
    )
    assert await store.put(b"foo") == f"{FOO}+3"
    assert (await store.ask("GET", f"/{FOO}+3")).body == b"foo"


async def test_options_tell_other_origins(store: Store) -> None:
    answer = await store.transport.request("OPTIONS", "/", headers={})
    assert answer.status == 200
    assert "PUT" in answer.headers["access-control-allow-methods"]


async def test_large_blocks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs_app, "Memory", functools.partial(Memory, patience=0.01))
    store = Store(MemoryVolume(), config=replace(CONFIG, API=API(MaxKeepBlobBuffers=1)))
    blocks = [await store.put(bytes([number]) * 100) for number in range(3)]
    answers = await asyncio.gather(*(store.ask("GET", f"/{block}") for block in blocks))
    assert [answer.status for answer in answers] == [200] * 3
    assert (await store.ask("GET", f"/{_signed(100)}")).status == 404
    held, release = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        # What came of a block has memory.
        yield bytes(MAX_BLOCK - 1)
        held.set()
        await release.wait()
        yield b"x"

    async def hold() -> int:
        # A body of unknown length: it gets room for the largest.
        sent = {"Authorization": f"Bearer {TOKEN}"}
        async with store.transport.stream("PUT", f"/{FOO}", headers=sent, body=slow()) as answer:
            return answer.status

    holder = asyncio.create_task(hold())
    await held.wait()
    busy = await store.ask("GET", f"/{blocks[0]}")
    release.set()
    # Its bytes are not those that its name promises.
    assert (busy.status, await holder) == (503, 400)
    assert busy.headers["retry-after"] == "2"


async def test_a_body_that_stands_still_is_given_up(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"fo"
        await asyncio.Event().wait()

    monkeypatch.setattr(transfer, "WINDOW", 0.01)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with store.transport.stream("PUT", f"/{FOO}", headers=headers, body=stuck()) as answer:
        assert answer.status == 503
        assert b"bytes a second came for" in await answer.read()


async def test_a_client_that_leaves_gets_no_answer(store: Store) -> None:
    sent: list[object] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    app = make_app(mounted(MemoryVolume()), CONFIG, clock=lambda: NOW, check_token=_check)
    authorization = (b"authorization", f"Bearer {TOKEN}".encode())
    scope = {
        "type": "http",
        "method": "PUT",
        "path": f"/{FOO}",
        "query_string": b"",
        "headers": [authorization],
    }
    await app(scope, receive, send)
    assert sent == []
