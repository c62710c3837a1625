"""Upgrades under load, from 0.1.0 and a database that it stored: rolling with two servers on
PostgreSQL, in place on SQLite. An older program refuses the upgraded database.

The first server is the program of 0.1.0 from the history of this repository. In a checkout without
that history it is the present program.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import sqlite3
import sys
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from lading.client.api import ApiClient
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport
from lading.core.errors import Conflict, Invalid, Unavailable
from lading.core.records.schema import JSON, Record
from lading.core.values import Json
from lading.store.schema import VERSION
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate, make_secrets
from lading.wiring.process import READY
from tests.postgres import PostgresServer
from tests.system.cluster import free_address

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "tests/store/schemas"
# The last commit of 0.1.0, and the version of its schema. It stored a database of version 4, which
# it brings to its own at its start.
COMMIT, OLD, STORED = "9e2a334f", 10, 4
# Secrets of the world that the databases were stored from (`lading.testing.world`).
IDENTITY: Final = {
    "cluster_id": "zzzzz",
    "system_root_token": "s" * 50,
    "admin_uuid": f"zzzzz-tpzed-{'a' * 15}",
    "admin_token_uuid": f"zzzzz-gj3su-{'a' * 15}",
    "admin_token_secret": "a" * 50,
    "dispatch_token_uuid": f"zzzzz-gj3su-{'d' * 15}",
    "dispatch_token_secret": "d" * 50,
}
EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"
SUBMITTERS, RUNNERS = 3, 3
SOME = 12
"""Requests that end in each phase of an upgrade."""


@dataclass
class Site:
    """Servers on one data directory, and clients that use any server that runs."""

    directory: DataDirectory
    secrets: Secrets
    old: Path | None
    """Source directory of 0.1.0."""
    is_single: bool = False
    """One server at a time, as SQLite needs."""
    processes: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    clients: dict[int, dict[str, ApiClient]] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    choice: random.Random = field(default_factory=lambda: random.Random(1))

    async def launch(self, number: int, *, is_old: bool = False) -> tuple[bytes, str]:
        """Start a server; what it says when it serves, and its standard error if it ends before."""
        reading, writing = os.pipe()
        around = {"PYTHONPATH": str(self.old)} if is_old and self.old is not None else {}
        log = self.directory.root / f"server{number}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lading.wiring.server", "--data", self.directory.root),
                *("--listen", free_address()),
                *(() if self.is_single else ("--socket", self._socket(number))),
                *("--parent", str(os.getpid()), "--ready-fd", str(writing)),
                pass_fds=[writing],
                env=os.environ | around,
                stderr=file,
            )
        os.close(writing)
        try:
            said = await asyncio.to_thread(os.read, reading, 4096)
        finally:
            os.close(reading)
        self.processes[number] = process
        return said, log.read_text()

    async def start(self, number: int, *, is_old: bool = False) -> None:
        """Start a server, and let clients use it."""
        said, log = await self.launch(number, is_old=is_old)
        assert said == READY, (said, log)
        self.clients[number] = {}
        for token in (self.secrets.admin_token, self.secrets.dispatch_token):
            self.clients[number][token] = await self._client(number, token)

    async def stop(self, number: int) -> None:
        """Take a server away from clients, and end it with TERM."""
        self.processes[number].terminate()
        assert await self.processes.pop(number).wait() == 0
        del self.clients[number]

    async def _client(self, number: int, token: str) -> ApiClient:
        connection = HttpTransport(unix_socket=self._socket(number))
        transport = await self.stack.enter_async_context(connection)
        return ApiClient(transport, token, retry=RetryPolicy(attempts=1))

    def _socket(self, number: int) -> Path:
        if self.is_single:
            return self.directory.socket
        return self.directory.root / f"api{number}.sock"

    async def ask(
        self,
        token: str,
        method: str,
        path: str,
        body: JSON = None,
        *,
        params: Mapping[str, Json] | None = None,
    ) -> Record:
        """Call any server that runs, and another one when it does not answer."""
        async with asyncio.timeout(120):
            while True:
                if self.clients:
                    number = self.choice.choice(sorted(self.clients))
                    clients = self.clients[number]
                    if token not in clients:
                        clients[token] = await self._client(number, token)
                    try:
                        answer = await clients[token].request(
                            method, path, body=body, params=params
                        )
                    except Unavailable:
                        pass
                    else:
                        assert isinstance(answer, dict)
                        return answer
                await asyncio.sleep(0.05)


@dataclass
class Load:
    """Users who submit requests, and supervisors that run them, all the while."""

    site: Site
    image: str = ""
    is_over: bool = False
    submitted: dict[str, str] = field(default_factory=dict)
    """Uuids of acknowledged requests, by name."""
    runs: Counter[str] = field(default_factory=Counter)
    """Number of runs of each container."""
    ended: set[str] = field(default_factory=set)

    async def submit(self, user: int) -> None:
        """Submit requests of different work, one after the other."""
        number = 0
        while not self.is_over:
            name = f"load.{user}.{number}"
            spec = {
                "name": name,
                "command": ["echo", name],
                "container_image": self.image,
                "output_path": "/out",
                "mounts": {"/out": {"kind": "tmp", "capacity": 1}},
                "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
                "priority": 1,
                "state": "Committed",
            }
            token = self.site.secrets.admin_token
            made = await self.site.ask(token, "POST", "container_requests", spec)
            self.submitted[name] = made["uuid"]
            number += 1
            # As many as run: the queue stays short.
            await self.until(lambda: len(self.submitted) < len(self.ended) + 10 or self.is_over)

    async def run(self) -> None:
        """Run queued containers as a dispatcher and its supervisors, until none is left."""
        token = self.site.secrets.dispatch_token
        waiting: Json = [["state", "=", "Queued"], ["priority", ">", 0]]
        params = {"filters": waiting, "limit": 9}
        while True:
            listed = await self.site.ask(token, "GET", "containers", params=params)
            for row in listed["items"]:
                await self._run_one(row["uuid"])
            if not listed["items"] and self.is_over:
                return
            await asyncio.sleep(0.05)

    async def _run_one(self, uuid: str) -> None:
        token, path = self.site.secrets.dispatch_token, f"containers/{uuid}"
        try:
            locked = await self.site.ask(token, "POST", f"{path}/lock")
        except (Conflict, Invalid):
            return
        supervisor = locked["supervisor_token"]
        await self.site.ask(supervisor, "PUT", path, {"state": "Running"})
        self.runs[uuid] += 1
        own = await self.site.ask(token, "GET", f"{path}/auth")
        made = await self.site.ask(
            f"v2/{own['uuid']}/{own['api_token']}",
            *("POST", "collections", {"manifest_text": "", "is_trashed": True}),
        )
        assert made["portable_data_hash"] == EMPTY
        end = {"state": "Complete", "exit_code": 0, "log": EMPTY, "output": EMPTY}
        await self.site.ask(supervisor, "PUT", path, end)
        self.ended.add(uuid)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a state of the load."""
        async with asyncio.timeout(180):
            while not is_so():
                await asyncio.sleep(0.02)

    async def more(self) -> None:
        """Wait until some more requests have been submitted and run."""
        count = len(self.ended) + SOME
        await self.until(lambda: len(self.ended) >= count)


@asynccontextmanager
async def loaded(site: Site) -> AsyncIterator[Load]:
    """Load on a site; afterwards everything acknowledged has ended, each once."""
    token = site.secrets.admin_token
    before = await everything(site, "container_requests")
    load = Load(site)
    empty = {"manifest_text": f". {EMPTY} 0:0:sha256:{'0' * 64}.tar\n"}
    load.image = (await site.ask(token, "POST", "collections", empty))["portable_data_hash"]
    async with asyncio.TaskGroup() as tasks:
        for user in range(SUBMITTERS):
            tasks.create_task(load.submit(user))
        for _ in range(RUNNERS):
            tasks.create_task(load.run())
        yield load
        load.is_over = True
    requests = await everything(site, "container_requests")
    containers = await everything(site, "containers")
    ours = {one["name"]: one for one in requests.values() if one["name"] in load.submitted}
    assert {name: one["uuid"] for name, one in ours.items()} == load.submitted
    assert len([one for one in requests.values() if one["name"] in load.submitted]) == len(ours)
    assert {one["state"] for one in ours.values()} == {"Final"}
    used = [one["container_uuid"] for one in ours.values()]
    assert len(set(used)) == len(used)
    assert {load.runs[uuid] for uuid in used} == {1} == {containers[x]["lock_count"] for x in used}
    assert {containers[uuid]["state"] for uuid in used} == {"Complete"}
    assert set(before) <= set(requests)
    for uuid, one in before.items():
        if one["state"] != "Committed":
            assert {key: requests[uuid][key] for key in one if key != "etag"} == {
                key: value for key, value in one.items() if key != "etag"
            }


async def everything(site: Site, plural: str) -> dict[str, Record]:
    """All records of a type, by uuid."""
    params: dict[str, Json] = {"limit": 1000, "count": "none"}
    answer = await site.ask(site.secrets.admin_token, "GET", plural, params=params)
    return {one["uuid"]: one for one in answer["items"]}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A data directory with the identity of the stored databases; no server runs."""
    directory = DataDirectory(tmp_path / "data")
    directory.prepare()
    secrets = replace(make_secrets(os.urandom(400)), **IDENTITY)
    (directory.root / "secrets.json").write_bytes(msgspec.json.encode(secrets))
    ensure_certificate(
        directory.certificate, directory.key, host="127.0.0.1", now=datetime.now(UTC)
    )
    found = Site(directory, secrets, await _old_program(tmp_path / "old"))
    async with found.stack:
        yield found
        for process in found.processes.values():
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _old_program(place: Path) -> Path | None:
    """The source of 0.1.0, None where the history does not have it."""
    command = ("git", "-C", str(ROOT), "archive", COMMIT, "src")
    git = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    data, _ = await git.communicate()
    if git.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(place)
    return place / "src"


async def refuse(site: Site, number: int, *, is_old: bool, version: int, program: int) -> None:
    """A program that is older than the database does not start, and says why."""
    said, log = await site.launch(number, is_old=is_old)
    assert await site.processes.pop(number).wait() != 0
    sentence = f"the database is of version {version}, this program of {program}"
    assert f"{sentence}: use a later release" in said.decode() + log


async def test_two_servers_on_postgresql_are_upgraded_one_by_one(
    site: Site, postgres: PostgresServer
) -> None:
    where = await postgres.fresh()
    dump = (SCHEMAS / f"postgresql_{STORED}.sql").read_text()
    await postgres.sql(dump, str(where["dbname"]))
    settings = {"PostgreSQL": {"Connection": dict(where)}}
    (site.directory.root / "config.yml").write_text(yaml.safe_dump(settings))
    await site.start(0, is_old=True)
    await site.start(1, is_old=True)
    async with loaded(site) as load:
        await load.more()
        await site.stop(1)
        await site.start(2)
        await load.more()
        await site.stop(0)
        await load.more()
        await site.start(3)
        await load.more()
    if site.old is not None:
        await refuse(site, 4, is_old=True, version=VERSION, program=OLD)
    later = f"INSERT INTO schema_versions (version, applied_at) VALUES ({VERSION + 1}, '')"
    await postgres.sql(later, str(where["dbname"]))
    await refuse(site, 5, is_old=False, version=VERSION + 1, program=VERSION)


async def test_a_server_on_sqlite_is_upgraded_in_place(site: Site) -> None:
    site.is_single = True
    place = site.directory.root / "db.sqlite"
    connection = sqlite3.connect(place)
    connection.executescript((SCHEMAS / f"sqlite_{STORED}.sql").read_text())
    connection.close()
    await site.start(0, is_old=True)
    async with loaded(site) as load:
        await load.more()
        await site.stop(0)
        await site.start(1)
        await load.more()
    await site.stop(1)
    if site.old is not None:
        await refuse(site, 2, is_old=True, version=VERSION, program=OLD)
    with sqlite3.connect(place) as connection:
        connection.execute(
            "INSERT INTO schema_versions (version, applied_at) VALUES (?, '')", (VERSION + 1,)
        )
    connection.close()
    await refuse(site, 3, is_old=False, version=VERSION + 1, program=VERSION)
