"""A user holds connections of every kind open by the hundred, reads slowly, sends slowly, or goes
away in the middle: other users are answered within a second, and every descriptor comes back.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Final

import pytest

from tests.reality import need_program, need_root
from tests.security.stranger import ANONYMOUS, Stranger
from tests.security.test_http_bounds import BLOCK, MIB, RECORDS, Target, head, status
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
MOST, PER_USER = 400, 100
HELD = 150
"""Connections that each attack opens."""
CONFIG = f"""
Local: {{VCPUs: 1, RAM: 1GiB}}
Containers: {{RuntimeEngine: native, StopGracePeriod: 1s}}
API:
  RequestHeadTimeout: 5s
  IdleConnectionTimeout: 10s
  MaxConnections: {MOST}
  MaxConnectionsPerUser: {PER_USER}
  MaxConnectionsPerAddress: {2 * PER_USER}
  TrustedAddresses: []
Users: {{AnonymousUserToken: {ANONYMOUS}}}
"""
SLACK = 12
"""Descriptors by which an idle server differs from itself: connections within, the database."""
EVENTS = "Accept: text/event-stream\r\n"
SOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)
SHELL = "Upgrade: ssh\r\nConnection: Upgrade\r\nContent-Length: 0\r\n"
SERVER = (
    "import socketserver, time; [print('x' * 99) for _ in range(160_000)]"
    "; print(end='', flush=True); h = type('H', (socketserver.BaseRequestHandler,), "
    "{'handle': lambda self: time.sleep(600)}); "
    "s = socketserver.ThreadingTCPServer; s.allow_reuse_address = True; "
    "s(('127.0.0.1', 8000), h).serve_forever()"
)


@dataclass
class Site:
    """A server, a user who attacks it, another who works, and what the first one has there."""

    target: Target
    stranger: Stranger
    attacker: str
    worker: str
    request: str = ""
    container: str = ""
    file: str = ""
    block: str = ""
    large: str = ""
    large_block: str = ""
    public: str = ""
    cookie: str = ""

    def page(self, path: str) -> bytes:
        return head("GET", path, more=f"Cookie: {self.cookie}\r\nAccept: text/html\r\n")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.target.pid}/fd").iterdir()))

    def seconds(self) -> float:
        """The longest time in which the other user gets an answer to a call, a block, a file and a
        page; the better one of two looks, as other programs of the machine take time too.
        """
        return min(self._look() for _ in range(2))

    def _look(self) -> float:
        longest = 0.0
        for path in ("/arvados/v1/users/current", f"/{self.block}", self.file, "/ui/login"):
            began = time.monotonic()
            assert self.stranger.send("GET", path, token=self.worker).status == 200, path
            longest = max(longest, time.monotonic() - began)
        return longest


def _running(site: Site, cluster: Cluster) -> None:
    """Start a container of the attacker, and wait until it can be entered."""
    cluster.environment["ARVADOS_API_TOKEN"] = site.attacker
    cluster.lading("image", "add", "--name", "held:1", "--from-host", "sh", "python3", "sleep")
    spec = {
        "container_image": "held:1", "command": ["python3", "-c", SERVER], "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp"}}, "priority": 500, "state": "Committed",
        "runtime_constraints": {"vcpus": 1, "ram": 128 * MIB},
        "published_ports": {"8000": {"access": "public", "label": "port", "initial_path": ""}},
    }  # fmt: skip
    site.request = site.stranger.ok("POST", "container_requests", spec, token=site.attacker)["uuid"]
    cluster.lading("shell", "--wait", site.request, "--", "true")
    found = site.stranger.ok("GET", f"container_requests/{site.request}", token=site.attacker)
    site.container = found["container_uuid"]


def _log_in(site: Site) -> str:
    """A session of the attacker on the page, as a cookie."""
    made = site.stranger.send("POST", "/ui/links", b"", token=site.attacker).json
    with site.target.connect() as connection:
        connection.sendall(head("GET", made["path"], more="Connection: close\r\n"))
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    return answer.decode().partition("set-cookie: ")[2].partition(";")[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_root()
    need_program("crun")
    data = tmp_path_factory.mktemp("held") / "data"
    with running_cluster(data, CONFIG) as cluster:
        stranger = Stranger(cluster)
        attacker, worker = (
            stranger.token(owner=stranger.user(name)) for name in ("mallory", "alice")
        )
        made = Site(Target(cluster), stranger, attacker, worker)
        made.block = stranger.keep(b"a block of alice", token=worker)
        work = stranger.collection(b"a file of alice", token=worker)
        made.file = f"/c={work['uuid']}/file"
        large = stranger.collection(os.urandom(32 * MIB), token=attacker)
        made.large = f"/c={large['uuid']}/file"
        made.large_block = stranger.keep(os.urandom(16 * MIB), token=attacker)
        shown = stranger.collection(os.urandom(8 * MIB), token=attacker)
        group = f"{shown['uuid'][:5]}-j7d0g-anonymouspublic"
        everybody = {"tail_uuid": group, "head_uuid": shown["uuid"]}
        stranger.ok("POST", "links", {"link_class": "permission", "name": "can_read", **everybody})
        made.public = f"/c={shown['uuid']}/file"
        _running(made, cluster)
        made.cookie = _log_in(made)
        yield made
        stranger.call("POST", f"container_requests/{made.request}/cancel")


Attack = Callable[[Site], bytes]
"""What is sent on a connection, which is then left alone."""
ATTACKS: Final[Mapping[str, Attack]] = {
    "idle after a call": lambda site: head(
        "GET", "/arvados/v1/users/current", token=site.attacker
    ),
    "event stream": lambda site: head("GET", "/events", token=site.attacker),
    "websocket": lambda site: head("GET", "/websocket", token=site.attacker, more=SOCKET),
    "slow body": lambda site: head(
        "POST", "/arvados/v1/collections", token=site.attacker,
        more="Content-Type: application/json\r\nContent-Length: 900000\r\n",
    ) + b"{",
    "slow block": lambda site: head(
        "PUT", f"/{md5(os.urandom(8)).hexdigest()}", token=site.attacker,
        more="Content-Length: 900000\r\n",
    ) + b"x",
    "slow file": lambda site: head(
        "PUT", f"{site.large}{os.urandom(4).hex()}", token=site.attacker,
        more="Content-Length: 900000\r\n",
    ) + b"x",
    "unread file": lambda site: head("GET", site.large, token=site.attacker),
    "unread block": lambda site: head("GET", f"/{site.large_block}", token=site.attacker),
    "unread list": lambda site: head(
        "GET", "/arvados/v1/logs?limit=1000", token=site.attacker
    ) * 10,
    "followed log": lambda site: head(
        "GET",
        f"/arvados/v1/container_requests/{site.request}/log/{site.container}/stderr.txt",
        token=site.attacker, more=EVENTS,
    ),
    "shell": lambda site: head(
        "POST", f"/arvados/v1/containers/{site.container}/ssh", token=site.attacker, more=SHELL
    ),
    "port": lambda site: head(
        "GET", f"/services/{site.container}-8000/", token=site.attacker
    ),
    "events of the page": lambda site: site.page(f"/ui/events?topics={site.request},new"),
    "download of the page": lambda site: site.page(
        f"/ui/requests/{site.request}/log/download?file=stdout.txt"
    ),
    "log of the page": lambda site: site.page(
        f"/ui/requests/{site.request}/log/follow?file=stdout.txt"
    ) * 4,
    "task": lambda site: head(
        "POST", "/ga4gh/tes/v1/tasks", token=site.attacker, more="Content-Length: 900000\r\n"
    ) + b"{",
    "run": lambda site: head(
        "POST", "/ga4gh/wes/v1/runs", token=site.attacker,
        more="Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 900000\r\n",
    ) + b"--x",
}  # fmt: skip


STRANGERS: Final[Mapping[str, Attack]] = {
    "event stream": lambda _: head("GET", "/events"),
    "websocket": lambda _: head("GET", f"/websocket?api_token={ANONYMOUS}", more=SOCKET),
    "unread file": lambda site: head("GET", site.public),
    "slow body": lambda _: head("POST", RECORDS, more="Content-Length: 60000\r\n") + b"{",
    "slow block": lambda _: head("PUT", BLOCK, more="Content-Length: 60000\r\n") + b"x",
    "port": lambda site: head("GET", f"/services/{site.container}-8000/"),
    "page": lambda _: head("GET", "/ui/login", more="Accept: text/html\r\n") * 16,
}
HELD_OPEN = {
    *("event stream", "websocket", "slow body", "slow block", "slow file", "unread file"),
    *("followed log", "shell", "port", "events of the page", "download of the page"),
    *("task", "run"),
}
"""Attacks of which the server answers so many at once, and no more."""


def _hold(site: Site, data: Callable[[], bytes]) -> None:
    """Open connections, send the same on each and nothing more, and look after the others."""
    target, before = site.target, site.descriptors()
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(HELD):
            # One that is refused for its number is a fault of the attack.
            opened.append(stack.enter_context(target.connect()))
            opened[-1].sendall(data())
        assert site.seconds() < 1
        # At most three for each connection, and those of the site itself.
        assert site.descriptors() < before + 3 * HELD + 50
        for connection in opened[::2]:
            # Half of them go without a word, by a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Beside other work the server takes a while to notice.
    until = time.monotonic() + 60
    while site.descriptors() > before + SLACK and time.monotonic() < until:
        time.sleep(0.1)
    assert site.descriptors() <= before + SLACK
    assert site.seconds() < 1


@pytest.mark.attack("a user holds 150 connections of a kind, and reads and sends nothing more")
@pytest.mark.parametrize("kind", ATTACKS)
def test_connections_of_a_user(site: Site, kind: str) -> None:
    _hold(site, lambda: ATTACKS[kind](site))


@pytest.mark.attack("strangers hold 150 connections of a kind, and read and send nothing more")
@pytest.mark.parametrize("kind", STRANGERS)
def test_connections_of_strangers(site: Site, kind: str) -> None:
    _hold(site, lambda: STRANGERS[kind](site))


@pytest.mark.attack("a user asks for more connections than the server takes, of each kind in turn")
def test_more_than_all_connections(site: Site) -> None:
    statuses = []
    with contextlib.ExitStack() as stack:
        opened = []
        for kind in sorted(HELD_OPEN) * (MOST // len(HELD_OPEN) + 8):
            opened.append(stack.enter_context(site.target.connect()))
            opened[-1].sendall(ATTACKS[kind](site))
        assert site.seconds() < 1
        for connection in opened:
            connection.settimeout(0.01)
            statuses.append(status(connection))
        assert statuses.count(503) >= len(opened) - MOST, statuses
        assert site.seconds() < 1
    assert site.seconds() < 1
