"""The block store under faults: what was acknowledged is there, what is damaged is not served,
errors name the block.

A `lading up` with two volumes: a small file system of its own (tmpfs), which can fill up and fail,
and a directory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lading.blobs.remote import RemoteVolume
from lading.client.blocks import BlockClient
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport, Response
from lading.core.errors import Conflict, LadingError
from tests.reality import need_root
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
SMALL, LARGE = "zzzzz-nyw5e-000000000smalls", "zzzzz-nyw5e-000000000larges"
CONFIG = """
Volumes:
  {small}:
    DriverParameters: {{Root: {root}/small, Reserve: 0}}
    StorageClasses: {{default: true, scarce: true}}
  {large}: {{DriverParameters: {{Root: {root}/large}}}}
StorageClasses: {{default: {{Default: true}}, scarce: {{}}}}
Collections: {{BalancePeriod: 0, ScrubPeriod: 0}}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need_root()
    made = tmp_path_factory.mktemp("storage")
    (made / "small").mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(made / "small")], check=True
    )
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", str(made / "small")], check=True)


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Cluster]:
    with running_cluster(
        root / "data", CONFIG.format(small=SMALL, large=LARGE, root=root)
    ) as running:
        yield running


class Store:
    """The store over the local socket, without a second try."""

    def __init__(self, transport: HttpTransport, token: str) -> None:
        self.transport = transport
        self.token = token
        self.client = BlockClient(transport, token, retry=RetryPolicy(attempts=1))

    async def put(self, data: bytes, *, copies: int = 1, classes: str = "default") -> Response:
        name = hashlib.md5(data, usedforsecurity=False).hexdigest()
        headers = {"X-Keep-Desired-Replicas": str(copies), "X-Keep-Storage-Classes": classes}
        return await self.ask("PUT", f"/{name}", data, headers)

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Response:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await self.transport.request(method, path, headers=sent, body=body, timeout=60)


@asynccontextmanager
async def store_of(cluster: Cluster) -> AsyncIterator[Store]:
    async with HttpTransport(unix_socket=cluster.data / "api.sock") as transport:
        yield Store(transport, cluster.environment["ARVADOS_API_TOKEN"])


def locator_of(answer: Response) -> str:
    assert answer.status == 200, answer.body
    return answer.body.decode().strip()


def files_of(root: Path, data: bytes) -> list[Path]:
    name = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return [
        path
        for path in (root / volume / name[:3] / name for volume in ("small", "large"))
        if path.exists()
    ]


async def until(what: str, condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_as_many_copies_as_are_wished_for_and_confirmed_by_class(
    cluster: Cluster, root: Path
) -> None:
    async with store_of(cluster) as store:
        answer = await store.put(b"twice", copies=2)
        assert answer.headers["x-keep-replicas-stored"] == "2"
        assert len(files_of(root, b"twice")) == 2
        answer = await store.put(b"scarce", classes="scarce")
        assert answer.headers["x-keep-storage-classes-confirmed"] == "scarce=1"
        assert [path.parents[1].name for path in files_of(root, b"scarce")] == ["small"]
        assert (await store.put(b"none", copies=3)).headers["x-keep-replicas-stored"] == "2"


async def test_a_full_volume_is_passed_over_and_said_when_there_is_no_other(
    cluster: Cluster, root: Path
) -> None:
    kept = []
    async with store_of(cluster) as store:
        for _ in range(12):
            data = os.urandom(8 * MIB)
            answer = await store.put(data, classes="scarce")
            if answer.status != 200:
                break
            kept.append((locator_of(answer), data))
        assert answer.status == 507
        assert b"free some space" in answer.body
        assert "small" in answer.body.decode()
        assert 3 <= len(kept) <= 5
        data = os.urandom(8 * MIB)
        answer = await store.put(data)
        assert answer.headers["x-keep-replicas-stored"] == "1"
        assert [path.parents[1].name for path in files_of(root, data)] == ["large"]
        for locator, content in kept:
            assert await store.client.get(locator) == content
        assert list((root / "small" / "tmp").iterdir()) == []
        for _, content in kept:
            files_of(root, content)[0].unlink()
        # What is free is asked for anew after some seconds.
        await asyncio.sleep(5.5)
        assert (await store.put(os.urandom(MIB), classes="scarce")).status == 200


async def test_a_volume_that_fails_is_passed_over_and_reported(
    cluster: Cluster, root: Path
) -> None:
    remount = ["mount", "-o", "remount,ro", str(root / "small")]
    async with store_of(cluster) as store:
        before = locator_of(await store.put(b"before", copies=2))
        subprocess.run(remount, check=True)
        try:
            answer = await store.put(os.urandom(MIB), copies=2)
            assert answer.headers["x-keep-replicas-stored"] == "1"
            assert await store.client.get(before) == b"before"
            answer = await store.put(b"nowhere", classes="scarce")
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")
            assert b"Read-only file system" in answer.body
        finally:
            subprocess.run(
                [word.replace("remount,ro", "remount,rw") for word in remount], check=True
            )
        secrets = json.loads((cluster.data / "secrets.json").read_text())
        headers = {"Authorization": f"Bearer {secrets['system_root_token']}"}
        shown = {
            one["uuid"]: one
            for one in json.loads((await store.ask("GET", "/mounts", b"", headers)).body)
        }
        assert shown[SMALL]["faults"] > 0
        assert "Read-only file system" in shown[SMALL]["last_fault"]
        assert shown[LARGE]["faults"] == 0
        assert (await store.put(b"scarce again", classes="scarce")).status == 200


async def test_a_flipped_bit_is_never_served_and_is_repaired_or_named(
    cluster: Cluster, root: Path
) -> None:
    async with store_of(cluster) as store:
        twice, once = os.urandom(3 * MIB), os.urandom(2 * MIB)
        pair, single = (
            locator_of(await store.put(twice, copies=2)),
            locator_of(await store.put(once)),
        )
        for path in (files_of(root, twice)[0], files_of(root, once)[0]):
            with path.open("r+b") as file:
                file.seek(MIB)
                byte = file.read(1)[0]
                file.seek(MIB)
                file.write(bytes([byte ^ 4]))
        assert await store.client.get(pair) == twice
        answer = await store.ask("GET", f"/{single}")
        assert answer.status == 502
        assert single[:32] in answer.body.decode()
        again = root / "again"
        again.write_bytes(once)
    found = cluster.lading("admin", "scrub", "--json", "--data", str(cluster.data), check=False)
    assert found.returncode == 1
    damaged = {one["hash"]: one["remedy"] for one in json.loads(found.stdout)["damaged"]}
    assert damaged == {pair[:32]: "repaired", single[:32]: "quarantined"}
    assert [hashlib.md5(path.read_bytes()).hexdigest() for path in files_of(root, twice)] == [
        pair[:32]
    ] * 2
    # Putting the same bytes again heals the block.
    cluster.lading("put", str(again), "--name", "healed")
    async with store_of(cluster) as store:
        assert await store.client.get(single) == once


async def test_a_damaged_file_is_named_to_its_reader(
    cluster: Cluster, root: Path, tmp_path: Path
) -> None:
    data = os.urandom(MIB)
    (tmp_path / "data.bin").write_bytes(data)
    pdh = cluster.lading("put", str(tmp_path / "data.bin"), "--name", "damaged").stdout.strip()
    path = files_of(root, data)[0]
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    done = cluster.lading("get", pdh, str(tmp_path / "out"), check=False)
    assert done.returncode == 1
    assert path.name in done.stderr
    assert not (tmp_path / "out" / "data.bin").exists()
    found = json.loads(
        cluster.lading("admin", "scrub", "--json", "--data", str(cluster.data), check=False).stdout
    )
    assert [hit["files"] for one in found["damaged"] for hit in one["hits"]] == [["data.bin"]]


async def test_another_server_reaches_a_volume(cluster: Cluster) -> None:
    root = json.loads((cluster.data / "secrets.json").read_text())["system_root_token"]
    volume = RemoteVolume(LARGE, HttpTransport(unix_socket=cluster.data / "api.sock"), root)
    data = os.urandom(2 * MIB)
    name = hashlib.md5(data).hexdigest()
    await volume.put(name, data)
    before = await volume.head(name)
    await volume.touch(name)
    after = await volume.head(name)
    assert (after.size, after.mtime_ns > before.mtime_ns) == (len(data), True)
    with pytest.raises(Conflict):
        await volume.discard(name, before.mtime_ns)
    await volume.discard(name, after.mtime_ns)
    assert name in [one.hash async for one in volume.discarded()]
    await volume.restore(name)
    assert name in [one.hash async for one in volume.index(name[:3])]
    assert await volume.get(name) == data
    assert (await volume.space()).free > 0
    await volume.close()


async def test_the_whole_interface_of_keep_passes_the_real_server(cluster: Cluster) -> None:
    root = json.loads((cluster.data / "secrets.json").read_text())["system_root_token"]
    async with store_of(cluster) as store:
        locator = locator_of(await store.put(b"every verb"))
        name = locator[:32]
        store.token = root
        assert f"{name}+10 " in (await store.ask("GET", f"/index/{name[:2]}")).body.decode()
        assert (await store.ask("TOUCH", f"/{name}")).status == 200
        assert (await store.ask("DELETE", f"/{name}")).status == 400
        assert (await store.ask("PUT", f"/untrash/{name}")).status == 404
        assert (await store.ask("PUT", "/trash", b"[]")).body == b"[]"
        assert (await store.ask("OPTIONS", f"/{name}")).status == 200


async def test_a_client_that_stops_half_way_leaves_nothing(cluster: Cluster, root: Path) -> None:
    data = os.urandom(20 * MIB)
    name = hashlib.md5(data).hexdigest()
    head = f"PUT /{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
    head += f"Authorization: Bearer {cluster.environment['ARVADOS_API_TOKEN']}\r\n\r\n"
    for sent in (100, 10 * MIB):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(cluster.data / "api.sock"))
            connection.sendall(head.encode() + data[:sent])
    await until("drafts are gone", lambda: not list(root.glob("*/tmp/*")))
    assert files_of(root, data) == []
    async with store_of(cluster) as store:
        assert await store.client.get(locator_of(await store.put(data))) == data


async def test_what_was_acknowledged_outlives_kill(cluster: Cluster, root: Path) -> None:
    acknowledged: dict[str, bytes] = {}
    stop = asyncio.Event()

    async def write() -> None:
        async with store_of(cluster) as store:
            while not stop.is_set():
                data = os.urandom(3 * MIB)
                try:
                    answer = await store.put(data, copies=1)
                except LadingError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status == 200:
                    acknowledged[locator_of(answer)] = data
                if len(acknowledged) > 60:
                    return

    writers = [asyncio.create_task(write()) for _ in range(4)]
    for _ in range(2):
        count = len(acknowledged)
        await until("blocks are put", lambda count=count: len(acknowledged) > count + 6)
        (pid,) = cluster.pids("server")
        os.kill(pid, signal.SIGKILL)
        await until("the server is back", lambda pid=pid: cluster.pids("server") not in ([], [pid]))
    count = len(acknowledged)
    await until("blocks are put again", lambda: len(acknowledged) > count)
    stop.set()
    await asyncio.gather(*writers)
    async with store_of(cluster) as store:
        for locator, data in acknowledged.items():
            assert await store.client.get(locator) == data
    for path in (path for volume in ("small", "large") for path in (root / volume).glob("???/*")):
        if path.parent.name != "tmp":
            assert hashlib.md5(path.read_bytes()).hexdigest() == path.name
    assert list(root.glob("*/tmp/*")) == []
