from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pytest

from lading.blobs.app import make_app
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.transport import Response
from lading.config.site import Config
from lading.config.storage import Collections
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume

ROOT = "rootsecret"
FOO, BAR = (hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"foo", b"bar"))
CONFIG = Config(
    Collections=Collections(BlobSigningKey="key", BlobSigningTTL=1000.0), SystemRootToken=ROOT
)
FIRST, SECOND = (f"zzzzz-nyw5e-{number:015}" for number in range(2))


async def _any(_: str, /, *, writing: bool) -> None:
    """Every token may use the store."""


class Store:
    def __init__(self) -> None:
        self.now = 5000.0
        self.one, self.two = MemoryVolume(), MemoryVolume()
        mounts = [
            VolumeMount(uuid=FIRST, volume=self.one),
            VolumeMount(uuid=SECOND, volume=self.two),
        ]
        mounts.append(
            VolumeMount(
                uuid="zzzzz-nyw5e-readonly0000000", volume=MemoryVolume(), is_read_only=True
            )
        )
        app = make_app(
            VolumeSet(mounts, clock=lambda: self.now),
            CONFIG,
            clock=lambda: self.now,
            check_token=_any,
        )
        self.transport = AsgiTransport(app)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str = ROOT,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        return await self.transport.request(method, path, headers=sent, body=data)


@pytest.fixture
async def store() -> Store:
    made = Store()
    await made.one.put(FOO, b"foo")
    await made.two.put(BAR, b"bar")
    return made


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/index"), ("GET", "/mounts"), ("GET", f"/mounts/{FIRST}/blocks"), ("PUT", "/trash"),
    ("PUT", "/pull"), ("PUT", f"/untrash/{FOO}"), ("TOUCH", f"/{FOO}"), ("DELETE", f"/{FOO}"),
    ("PUT", f"/mounts/{FIRST}/block/{FOO}"),
])  # fmt: skip
async def test_it_is_for_the_root_token_only(store: Store, method: str, path: str) -> None:
    assert (await store.ask(method, path, token="another")).status == 403
    assert (await store.transport.request(method, path, headers={})).status == 401


async def test_the_root_token_may_come_in_its_v2_form(store: Store) -> None:
    assert (
        await store.ask("GET", "/index", token=f"v2/zzzzz-gj3su-000000000000000/{ROOT}")
    ).status == 200


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("/index", f"{FOO}+3 1\n{BAR}+3 1\n\n"),
        (f"/index/{BAR[:3]}", f"{BAR}+3 1\n\n"),
        (f"/index?prefix={FOO[:2]}", f"{FOO}+3 1\n\n"),
        ("/index/fff", "\n"),
        (f"/mounts/{FIRST}/blocks", f"{FOO}+3 1\n\n"),
        (f"/mounts/{FIRST}/blocks/{BAR[:3]}", "\n"),
    ],
)
async def test_indexes(store: Store, path: str, listed: str) -> None:
    answer = await store.ask("GET", path)
    assert (answer.status, answer.body.decode()) == (200, listed)


async def test_a_long_index_comes_in_parts_and_a_broken_one_has_no_end(store: Store) -> None:
    for number in range(1500):
        data = str(number).encode()
        await store.one.put(hashlib.md5(data, usedforsecurity=False).hexdigest(), data)
    assert (await store.ask("GET", "/index")).body.count(b"\n") == 1503
    store.two.failures = 1.0
    answer = await store.ask("GET", "/index")
    assert not answer.body.endswith(b"\n\n")
    assert answer.body.count(b"\n") == 1501


async def test_wrong_prefixes_volumes_and_verbs(store: Store) -> None:
    for method, path, status in (
        ("GET", "/index/xyz", 400),
        ("GET", f"/index?prefix={'0' * 33}", 400),
        ("GET", "/mounts/other/blocks", 404),
        ("GET", f"/mounts/{FIRST}/other", 400),
        ("POST", f"/mounts/{FIRST}/block/{FOO}", 400),
        ("POST", "/trash", 404),
    ):
        assert (await store.ask(method, path)).status == status


async def test_mounts_tell_what_there_is(store: Store) -> None:
    store.two.failures = 1.0
    one, two, three = json.loads((await store.ask("GET", "/mounts")).body)
    assert one["uuid"] == FIRST
    assert one["storage_classes"] == {"default": True}
    assert (one["replication"], one["read_only"], one["free"], one["faults"]) == (
        1,
        False,
        (1 << 30) - 3,
        0,
    )
    assert (two["free"], two["last_fault"]) == (None, "the volume failed")
    assert three["read_only"] is True


def item(hash: str = FOO, *, mtime: int = 1, mount: str = "") -> dict[str, object]:
    return {"locator": f"{hash}+3", "block_mtime": mtime, "mount_uuid": mount}


async def test_a_trash_list_is_worked_through(store: Store) -> None:
    recent = int(4500e9)
    items = [
        item(),
        item(BAR, mtime=2),
        item("0" * 32),
        item(BAR, mtime=recent),
        item(BAR, mount="other"),
    ]
    items.append(item(BAR, mount="zzzzz-nyw5e-readonly0000000"))
    answer = json.loads((await store.ask("PUT", "/trash", items)).body)
    assert [one["outcome"] for one in answer] == [
        "trashed",
        f"{BAR}: was put again",
        "not there",
        "kept: put too recently",
        "other: no such volume here",
        "zzzzz-nyw5e-readonly0000000: is read-only",
    ]
    assert [one.hash async for one in store.one.discarded()] == [FOO]
    assert [one.hash async for one in store.two.index()] == [BAR]
    assert (await store.ask("PUT", f"/untrash/{FOO}+3")).body == f"Untrashed on {FIRST}\n".encode()
    assert (await store.ask("PUT", f"/untrash/{FOO}")).status == 404
    assert await store.one.get(FOO) == b"foo"


async def test_a_pull_list_is_worked_through(store: Store) -> None:
    items = [
        item(mount=SECOND),
        item("0" * 32, mount=SECOND),
        item(mount="zzzzz-nyw5e-readonly0000000"),
    ]
    answer = json.loads((await store.ask("PUT", "/pull", items)).body)
    assert answer[0]["outcome"] == "copied"
    assert "no such block" in answer[1]["outcome"] or "not in" in answer[1]["outcome"]
    assert "read-only" in answer[2]["outcome"]
    assert await store.two.get(FOO) == b"foo"


@pytest.mark.parametrize("body", [b"{}", b"[5]", b"nonsense", b"\xff"])
async def test_a_list_that_is_none_is_refused(store: Store, body: bytes) -> None:
    assert (await store.ask("PUT", "/trash", body)).status == 400


async def test_a_list_may_not_be_endless(store: Store) -> None:
    body = b"[" + b" " * (64 << 20)
    assert "longer than" in (await store.ask("PUT", "/trash", body)).body.decode()


async def test_touch_and_delete(store: Store) -> None:
    await store.one.put(BAR, b"bar")
    assert (await store.ask("TOUCH", f"/{FOO}")).status == 200
    assert (await store.one.head(FOO)).mtime_ns > 1
    assert (await store.ask("TOUCH", f"/{'0' * 32}")).status == 404
    assert json.loads((await store.ask("DELETE", f"/{FOO}")).body) == {
        "copies_deleted": 1,
        "copies_failed": 0,
    }
    assert [one.hash async for one in store.one.discarded()] == [FOO]
    store.now = 500.0
    assert (await store.ask("DELETE", f"/{BAR}")).status == 400


async def test_one_volume_as_other_servers_reach_it(store: Store) -> None:
    block = f"/mounts/{SECOND}/block/{FOO}"
    assert (await store.ask("GET", block)).status == 404
    assert (await store.ask("PUT", block, b"foo")).status == 200
    assert (await store.ask("GET", block)).body == b"foo"
    seen = (await store.ask("HEAD", block)).headers["x-keep-mtime"]
    assert (await store.ask("POST", f"{block}/touch")).status == 200
    assert (
        await store.ask("POST", f"{block}/discard", headers={"X-Keep-Mtime": seen})
    ).status == 409
    for bad in ("soon", "\u00b2"):
        sent = {"X-Keep-Mtime": bad}
        assert (await store.ask("POST", f"{block}/discard", headers=sent)).status == 400
    seen = (await store.ask("HEAD", block)).headers["x-keep-mtime"]
    assert (
        await store.ask("POST", f"{block}/discard", headers={"X-Keep-Mtime": seen})
    ).status == 200
    (listed, end) = (
        (await store.ask("GET", f"/mounts/{SECOND}/trash")).body.decode().split("\n")[:2]
    )
    assert (listed.split()[0], end) == (f"{FOO}+3", "")
    assert (await store.ask("POST", f"{block}/restore")).status == 200
    seen = (await store.ask("HEAD", block)).headers["x-keep-mtime"]
    assert (
        await store.ask("POST", f"{block}/quarantine", headers={"X-Keep-Mtime": seen})
    ).status == 200
    assert store.two.quarantined == {FOO: b"foo"}
    assert json.loads((await store.ask("GET", f"/mounts/{SECOND}/space")).body)["total"] == 1 << 30


async def test_what_is_in_the_bin_of_a_volume_can_be_deleted(store: Store) -> None:
    await store.one.discard(FOO, 1)
    (thrown,) = [one async for one in store.one.discarded()]
    purge = {"X-Keep-Mtime": str(thrown.discarded_ns)}
    assert (
        await store.ask("POST", f"/mounts/{FIRST}/block/{FOO}/delete", headers=purge)
    ).status == 200
    assert (
        await store.ask("POST", f"/mounts/{FIRST}/block/{FOO}/delete", headers=purge)
    ).status == 404


async def test_a_read_only_volume_is_not_changed(store: Store) -> None:
    block = f"/mounts/zzzzz-nyw5e-readonly0000000/block/{FOO}"
    for method, path in (("PUT", block), ("POST", f"{block}/touch"), ("POST", f"{block}/discard")):
        assert (await store.ask(method, path, b"foo")).status == 403
