"""Webhooks of a real server: a receiver that fails while the server restarts, and e-mail."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
SETTINGS = (
    "Containers: {Dispatcher: none}\nWebhooks: {AllowedNetworks: [127.0.0.0/8], Timeout: 3s}\n"
)


class Receiver:
    """Notes deliveries with a good signature, and answers `status`."""

    def __init__(self) -> None:
        self.status = 204
        self.secret = ""
        self.got: list[tuple[str, dict[str, Any]]] = []
        it = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                stamp = self.headers["webhook-timestamp"]
                signed = b"%b.%b.%b" % (self.headers["webhook-id"].encode(), stamp.encode(), body)
                key = base64.b64decode(it.secret.removeprefix("whsec_"))
                digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
                assert self.headers["webhook-signature"] == f"v1,{digest}"
                it.got.append((self.headers["webhook-id"], json.loads(body)))
                self.send_response(it.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

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
        url = f"http://127.0.0.1:{it.server.server_port}/"
        made = created(cluster, url, "--on", "lading.group.create", "--name", "ci")
        it.secret = made["secret"]
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
        shown = json.loads(cluster.lading("webhook", "deliveries", "ci", "--json").stdout)
        assert (shown["delivered"], shown["failures"], shown["dead"]) == (3, 0, [])


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
