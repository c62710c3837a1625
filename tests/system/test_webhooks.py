"""Webhooks of a real server: a receiver that fails while the server restarts, and e-mail."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.server
import json
import os
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lading.api.webhooks.worker import WebhookWorker
from lading.client.api import ApiClient
from lading.core.webhooks.schedule import RetryRules
from lading.process.concurrency import cancel_all
from lading.store.database import Database
from lading.testing.world import world
from tests.api.webhooks.fake_sender import FakeSender, hook, project
from tests.postgres import PostgresServer
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_servers import two_servers

pytestmark = pytest.mark.system
SETTINGS = (
    "Containers: {Dispatcher: none}\nWebhooks: {AllowedNetworks: [127.0.0.0/8], Timeout: 3s}\n"
)


class Receiver:
    """Notes deliveries with a good signature, and answers `status`, while it is `open`. `secrets`
    are those of each path.
    """

    def __init__(self) -> None:
        self.status = 204
        self.secrets: dict[str, str] = {}
        self.open = threading.Event()
        self.open.set()
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[tuple[str, str]] = []
        it = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                stamp = self.headers["webhook-timestamp"]
                signed = b"%b.%b.%b" % (self.headers["webhook-id"].encode(), stamp.encode(), body)
                key = base64.b64decode(it.secrets[self.path].removeprefix("whsec_"))
                digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
                assert f"v1,{digest}" in self.headers["webhook-signature"].split()
                it.got.append((self.headers["webhook-id"], json.loads(body)))
                it.sent.append((self.path, self.headers["webhook-id"]))
                it.open.wait(60)
                self.send_response(it.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def names(self) -> list[str]:
        return [one["data"]["properties"]["new_attributes"]["name"] for _, one in self.got]


@contextmanager
def receiving() -> Iterator[Receiver]:
    made = Receiver()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


def wait_for(is_there: Callable[[], object], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_there():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def created(cluster: Cluster, url: str, *options: str) -> dict[str, Any]:
    done = cluster.lading("webhook", "create", url, "--json", *options)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_events_survive_restarts_of_server_and_receiver(tmp_path: Path) -> None:
    with receiving() as it, running_cluster(tmp_path / "data", SETTINGS) as cluster:
        made = created(cluster, f"{it.url}/", "--on", "lading.group.create", "--name", "ci")
        it.secrets["/"] = made["secret"]
        assert "answered 204" in cluster.lading("webhook", "test", "ci").stderr
        it.got.clear()
        cluster.lading("project", "create", "one")
        wait_for(lambda: it.names == ["one"], "the first event")
        it.status = 503
        for name in ("two", "three"):
            cluster.lading("project", "create", name)
        wait_for(lambda: "two" in it.names, "a failed attempt")
        # Killed, not stopped: what was stored must be enough.
        assert cluster.process is not None
        for pid in cluster.pids("server"):
            os.kill(pid, signal.SIGKILL)
        cluster.stop()
        it.status, failed = 204, len(it.got)
        cluster.start()
        wait_for(lambda: it.names[failed:][-1:] == ["three"], "the events behind", 120)
        assert it.names[failed:] == ["two", "three"]
        # The same event has the same id each time.
        ids = [uuid for uuid, one in it.got if "two" in json.dumps(one)]
        assert len(set(ids)) == 1
        rotated = json.loads(cluster.lading("webhook", "rotate", "ci", "--json").stdout)
        # The receiver has the former secret still, and then the new one.
        for secret in (it.secrets["/"], rotated["secret"]):
            it.secrets["/"] = secret
            cluster.lading("webhook", "test", "ci")
        shown = json.loads(cluster.lading("webhook", "deliveries", "ci", "--json").stdout)
        assert (shown["delivered"], shown["failures"], shown["dead"]) == (3, 0, [])


def test_the_end_of_a_run_is_told_over_a_killed_server(tmp_path: Path) -> None:
    with receiving() as it, running_cluster(tmp_path / "data", SETTINGS) as cluster:
        cluster.lading("runs", "begin", "cohort-7")
        command = ("runs", "notify", "cohort-7", "--webhook", f"{it.url}/run", "--json")
        (wish,) = json.loads(cluster.lading(*command).stdout)
        it.secrets["/run"] = wish["secret"]
        it.status = 503
        cluster.lading("runs", "end", "cohort-7", "--failed", "--note", "no reads")
        assert cluster.process is not None
        for pid in cluster.pids("server"):
            os.kill(pid, signal.SIGKILL)
        cluster.stop()
        it.status = 204
        refused = len(it.got)
        cluster.start()
        wait_for(lambda: len(it.got) > refused, "the end of the run", 120)
        cluster.lading("webhook", "test", wish["uuid"])
        told = [event for _, event in it.got if event["type"] == "lading.group.run_end"]
        assert {event["id"] for event in told} == {told[0]["id"]}
        run = told[0]["data"]["properties"]["run"]
        assert (run["attempt"], run["number"], run["state"]) == (1, 1, "failed")
        assert run["note"] == "no reads"


TWO_SERVERS: dict[str, Any] = {
    "Webhooks": {"AllowedNetworks": ["127.0.0.0/8"], "Timeout": "2s"},
    "Mail": {"Timeout": "2s"},
}


async def made_by(client: ApiClient, it: Receiver, path: str) -> str:
    """The uuid of a webhook for new projects that a receiver gets at a path."""
    attributes = {"url": it.url + path, "event_types": ["lading.group.create"], "name": path}
    made = await client.create("webhooks", attributes)
    it.secrets[path] = made["secret"]
    return str(made["uuid"])


async def add_projects(client: ApiClient, *names: str) -> None:
    for name in names:
        await client.create("groups", {"name": name, "group_class": "project"})


async def until(is_there: Callable[[], object], what: str, seconds: float = 60) -> None:
    await asyncio.to_thread(wait_for, is_there, what, seconds)


async def test_two_servers_deliver_each_event_once(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with receiving() as it:
        async with two_servers(tmp_path, postgres, **TWO_SERVERS) as servers:
            clients = [await servers.client(number) for number in (0, 1)]
            for number in range(6):
                await made_by(clients[number % 2], it, f"/{number}")
            names = [f"p{number}" for number in range(30)]
            await asyncio.gather(
                *(add_projects(one, *names[at::2]) for at, one in enumerate(clients))
            )
            await until(lambda: len(set(it.sent)) == 6 * 30, "all deliveries")
            # Time for a second delivery of any of them.
            await asyncio.sleep(3)
            assert len(it.sent) == len(set(it.sent)) == 6 * 30
            # Each webhook gets them in the order of the log.
            orders = [[uuid for at, uuid in it.sent if at == path] for path in it.secrets]
            assert all(one == orders[0] for one in orders)


async def test_a_server_takes_over_from_one_that_was_killed(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with receiving() as it:
        # Longer than a server takes to start.
        settings = TWO_SERVERS | {"Webhooks": {**TWO_SERVERS["Webhooks"], "Timeout": "15s"}}
        async with two_servers(tmp_path, postgres, **settings) as servers:
            servers.processes[1].terminate()
            await servers.processes[1].wait()
            first = await servers.client(0)
            await made_by(first, it, "/")
            it.open.clear()
            await add_projects(first, "a", "b")
            await until(lambda: it.names == ["a"], "the first attempt")
            await servers.start(1)
            servers.processes[0].kill()
            await servers.processes[0].wait()
            it.open.set()
            # No event and no call tells it: the time of the hold ends.
            await until(lambda: it.names[-1] == "b", "the other server", 120)
            assert it.names == ["a", "a", "b"]
            assert len(set(it.sent)) == 2


async def test_an_idle_server_reads_nothing_for_webhooks(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await hook(it)
        database = CountingDatabase(it.database)
        services = replace(it.app.services, database=cast(Database, database))
        sender = FakeSender()
        worker = WebhookWorker(
            services, sender, rules=RetryRules(), most=4, timeout=15, chance=lambda: 0.0
        )
        running = asyncio.create_task(worker.run())
        await project(it, "a")
        await sender.arrivals.get()
        # The look that follows the end of the delivery.
        await asyncio.sleep(1)
        database.used = 0
        await asyncio.sleep(5)
        assert database.used == 0
        await project(it, "b")
        async with asyncio.timeout(0.5):
            await sender.arrivals.get()
        await cancel_all(running)


class CountingDatabase:
    """A database that counts its transactions."""

    def __init__(self, database: Database) -> None:
        self.database, self.used = database, 0

    def __getattr__(self, name: str) -> Any:
        self.used += name in ("reading", "writing")
        return getattr(self.database, name)


class MailHandler(socketserver.StreamRequestHandler):
    """A session of SMTP that takes everything; messages go to the server's list."""

    def handle(self) -> None:
        self.say("220 here")
        while line := self.rfile.readline():
            word = line.split(b" ")[0].strip().upper()
            if word == b"DATA":
                self.say("354 go on")
                lines = []
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(part)
                self.server.messages.append(b"".join(lines).decode())  # type: ignore[attr-defined]
            self.say("221 bye" if word == b"QUIT" else "250 well")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def test_an_email_is_sent(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailHandler) as server:
        server.daemon_threads = True
        messages = server.messages = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mail = (
            f"Mail: {{Host: 127.0.0.1, Port: {server.server_address[1]}, TLS: never,"
            " From: lading@example.org}\n"
        )
        with running_cluster(tmp_path / "data", SETTINGS + mail) as cluster:
            made = created(cluster, "mailto:ada@example.org", "--on", "lading.group.create")
            cluster.lading("webhook", "test", made["uuid"])
            cluster.lading("project", "create", "sequencing")
            wait_for(lambda: len(messages) == 2, "the event")
        server.shutdown()
    assert "To: ada@example.org\r\n" in messages[1]
    assert 'Subject: [Lading] group "sequencing" create' in messages[1]
