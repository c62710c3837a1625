"""Two servers on one PostgreSQL database under load, one of them killed: nothing acknowledged is
lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from lading.client.api import ApiClient
from lading.client.record_events import RecordEvent, events
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport
from lading.core.errors import Conflict, Invalid, Unavailable
from lading.core.records.schema import JSON, Record
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from lading.wiring.process import READY
from tests.postgres import PostgresServer
from tests.system.cluster import free_address

WRITERS, CONTAINERS, LOCKERS = 6, 60, 4
EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"


@dataclass
class Servers:
    """Two server processes on one directory and one database."""

    directory: DataDirectory
    secrets: Secrets
    processes: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def socket(self, number: int) -> Path:
        """The local socket of a server."""
        return self.directory.root / f"api{number}.sock"

    async def start(self, number: int) -> None:
        """Start a server and wait until it serves."""
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "lading.wiring.server", "--data", str(self.directory.root)]
        self.addresses[number] = free_address()
        listen = ["--listen", self.addresses[number], "--socket", str(self.socket(number))]
        process = await asyncio.create_subprocess_exec(
            *command,
            *listen,
            "--parent",
            str(os.getpid()),
            "--ready-fd",
            str(writing),
            pass_fds=[writing],
        )
        os.close(writing)
        try:
            assert await asyncio.to_thread(os.read, reading, 4096) == READY
        finally:
            os.close(reading)
        self.processes[number] = process

    async def client(self, number: int, token: str = "") -> ApiClient:
        """A client of one server that does not try again."""
        transport = await self.stack.enter_async_context(
            HttpTransport(unix_socket=self.socket(number))
        )
        return ApiClient(
            transport, token or self.secrets.admin_token, retry=RetryPolicy(attempts=1)
        )


@pytest.fixture
async def servers(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Servers]:
    async with two_servers(tmp_path, postgres) as made:
        yield made


@asynccontextmanager
async def two_servers(root: Path, postgres: PostgresServer, **more: JSON) -> AsyncIterator[Servers]:
    """Two servers on a directory and a fresh database; `more` are keys of their configuration."""
    directory = DataDirectory(root)
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    ensure_certificate(
        directory.certificate, directory.key, host="127.0.0.1", now=datetime.now(UTC)
    )
    settings = {"PostgreSQL": {"Connection": dict(await postgres.fresh())}, **more}
    (root / "config.yml").write_text(yaml.safe_dump(settings))
    made = Servers(directory, secrets)
    await asyncio.gather(made.start(0), made.start(1))
    async with made.stack:
        yield made
    for process in made.processes.values():
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_one_of_two_servers_is_killed_under_load(servers: Servers) -> None:
    clients = [await servers.client(0), await servers.client(1)]
    survivor = clients[1]
    waiting = await queue(survivor, CONTAINERS)
    heard: list[str] = []
    listening = asyncio.create_task(listen(survivor, heard))
    await mark(survivor, heard, "begin")
    acknowledged: list[str] = []
    won: dict[str, list[int]] = {}
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(WRITERS):
            tasks.create_task(write(clients[number % 2], number, waiting[0], acknowledged, enough))
        for number in range(LOCKERS):
            tasks.create_task(lock(clients[number % 2], number, waiting, won))
        await enough.wait()
        servers.processes[0].send_signal(signal.SIGKILL)
    await mark(survivor, heard, "end")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    stored = await names(survivor)
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) >= 100
    assert {uuid: winners for uuid, winners in won.items() if len(winners) > 1} == {}
    ours = set(stored.values())
    assert [uuid for uuid in heard if uuid in ours] == [
        uuid for uuid in await links_in_order(survivor) if uuid in ours
    ]
    locked = await survivor.list("containers", filters=[["state", "=", "Locked"]], limit=1000)
    assert {row["uuid"] for row in locked} >= set(won)
    assert all(row["lock_count"] == 1 for row in locked)


async def queue(client: ApiClient, count: int) -> list[str]:
    """Containers that wait to be locked."""
    image = await client.create(
        "collections", {"manifest_text": f". {EMPTY} 0:0:sha256:{'0' * 64}.tar\n"}
    )
    spec = {
        "container_image": image["portable_data_hash"],
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1}},
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
        "priority": 1,
        "state": "Committed",
    }
    made = [
        await client.create("container_requests", {**spec, "command": ["echo", str(number)]})
        for number in range(count)
    ]
    return [str(row["container_uuid"]) for row in made]


async def write(
    client: ApiClient, writer: int, about: str, acknowledged: list[str], enough: asyncio.Event
) -> None:
    """Make links until the server dies, or until a good while after the other one died."""
    for number in range(150):
        name = f"{writer}.{number}"
        try:
            await client.create("links", {"link_class": "tag", "name": name, "head_uuid": about})
        except Unavailable:
            return
        acknowledged.append(name)
        if len(acknowledged) == 100:
            enough.set()


async def lock(
    client: ApiClient, locker: int, waiting: list[str], won: dict[str, list[int]]
) -> None:
    """Try to lock every container, each locker beginning elsewhere."""
    start = locker * len(waiting) // (2 * LOCKERS)
    for uuid in waiting[start:] + waiting[:start]:
        try:
            await client.action("containers", uuid, "lock")
        except (Conflict, Invalid):
            continue
        except Unavailable:
            return
        won.setdefault(uuid, []).append(locker)


async def listen(client: ApiClient, heard: list[str]) -> None:
    """Remember what was made, in the order of the events."""
    async with aclosing(events(client)) as heard_now:
        async for event in heard_now:
            if isinstance(event, RecordEvent) and event.event_type == "create":
                heard.append(event.object_uuid)


async def mark(client: ApiClient, heard: list[str], name: str) -> None:
    """Wait until the listener hears of what is made now."""
    async with asyncio.timeout(180):
        while True:
            made = await client.create("collections", {"name": name}, ensure_unique_name=True)
            for _ in range(20):
                if made["uuid"] in heard:
                    return
                await asyncio.sleep(0.05)


async def names(client: ApiClient) -> dict[str, str]:
    """The uuids of all tags by name."""
    rows = await everything(client, "links", "uuid", "", [["link_class", "=", "tag"]])
    return {row["name"]: row["uuid"] for row in rows}


async def links_in_order(client: ApiClient) -> list[str]:
    """The uuids of all links, in the order in which the log says that they were made."""
    made: list[JSON] = [["event_type", "=", "create"], ["object_uuid", "is_a", "arvados#link"]]
    return [row["object_uuid"] for row in await everything(client, "logs", "id", 0, made)]


async def everything(
    client: ApiClient, plural: str, key: str, last: JSON, filters: list[JSON]
) -> list[Record]:
    """All records, page by page."""
    rows: list[Record] = []
    while page := await client.list(
        plural, filters=[*filters, [key, ">", last]], order=[key], limit=500
    ):
        rows += page
        last = page[-1][key]
    return rows


async def test_what_a_dispatcher_tells_one_server_the_other_says_too(servers: Servers) -> None:
    one, other = await servers.client(0), await servers.client(1)
    (container,) = await queue(one, 1)
    sentence = "Waiting in queue at position 1: the quota is 1 container at a time, and 1 runs now."
    items = {container: {"reason": "quota", "sentence": sentence}}
    dispatcher = await servers.client(0, servers.secrets.dispatch_token)
    await dispatcher.request("POST", "dispatch/statuses", body={"items": items})
    request = (await one.list("container_requests", filters=[["container_uuid", "=", container]]))[
        0
    ]["uuid"]
    answers = [
        await client.action("container_requests", request, "why", method="GET")
        for client in (one, other)
    ]
    assert answers[0]["waits"] == answers[1]["waits"]
    assert answers[1]["waits"][1] == {"reason": "quota", "sentence": sentence}
    states = [
        await client.action("container_requests", request, "container_status", method="GET")
        for client in (one, other)
    ]
    assert (
        states[0]
        == states[1]
        == {"uuid": container, "container_state": "Queued", "scheduling_status": sentence}
    )
