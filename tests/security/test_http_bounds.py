"""Strangers who send heads without end, heads without a rest, and bodies that nobody asked for."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hpc_daemon import Rig, until
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
HEAD_SECONDS, PER_ADDRESS, MOST = 2.0, 100, 220
CONFIG = f"""
Containers: {{Dispatcher: none}}
API:
  RequestHeadTimeout: {HEAD_SECONDS}
  MaxConnectionsPerAddress: {PER_ADDRESS}
  MaxConnections: {MOST}
  TrustedAddresses: []
"""
MIB = 1 << 20
BLOCK = "/acbd18db4cc2f85cedef654fccc4a4d8"
COLLECTION = "/c=zzzzz-4zz18-000000000000000/file"
PORT = "/services/zzzzz-dz642-000000000000000-80/"
RECORDS = "/arvados/v1/collections"
PLACES = [RECORDS, BLOCK, COLLECTION, PORT, "/websocket"]
WAYS = ["https", "unix"]


@dataclass
class Target:
    """A running server, and raw connections to it."""

    cluster: Cluster

    @property
    def pid(self) -> int:
        return self.cluster.pids("server")[0]

    @property
    def token(self) -> str:
        return self.cluster.environment["ARVADOS_API_TOKEN"]

    def memory(self) -> int:
        """Resident bytes of the server."""
        return memory_of(self.pid)

    def connect(self, way: str = "https") -> socket.socket:
        if way == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(20)
            made.connect(str(self.cluster.data / "api.sock"))
            return made
        plain = self.connect_plainly()
        context = ssl.create_default_context(cafile=str(self.cluster.data / "tls.crt"))
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def connect_plainly(self) -> socket.socket:
        host, _, port = self.cluster.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def is_well(self) -> bool:
        """Whether somebody with a token is answered, and soon."""
        began = time.monotonic()
        with self.connect() as one:
            one.sendall(head("GET", RECORDS, token=self.token))
            return status(one) == 200 and time.monotonic() - began < 5


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running_cluster(tmp_path_factory.mktemp("bounds") / "data", CONFIG) as cluster:
        made = Target(cluster)
        assert made.is_well()
        yield made
        assert made.is_well()


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def head(method: str, path: str, *, token: str = "", more: str = "") -> bytes:
    known = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{known}{more}\r\n".encode()


def status(connection: socket.socket) -> int:
    """The status of the next answer; 0 when the connection ended without one."""
    data = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in data:
            part = connection.recv(4096)
            if not part:
                break
            data += part
    return int(data.split(b" ")[1]) if data.startswith(b"HTTP/1.1 ") else 0


def is_ended(connection: socket.socket, seconds: float) -> bool:
    """Whether the other side ends the connection in time."""
    connection.settimeout(seconds)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def pour(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send until all was sent or the other side breaks the connection; bytes sent."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.attack("sends 250 MB of header lines on one connection")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", PLACES)
def test_endless_head(target: Target, way: str, path: str) -> None:
    before = target.memory()
    line = b"".join(b"X-%06d: %s\r\n" % (at, b"v" * 1000) for at in range(1000))
    with target.connect(way) as one:
        one.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode())
        assert pour(one, line, 250_000_000) < 20_000_000
    assert target.memory() - before < 16 * MIB


@pytest.mark.attack("sends 250 MB as one header line that does not end")
@pytest.mark.parametrize("way", WAYS)
def test_endless_line(target: Target, way: str) -> None:
    before = target.memory()
    with target.connect(way) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        assert pour(one, b"v" * (1 << 20), 250_000_000) < 20_000_000
    assert target.memory() - before < 16 * MIB


@pytest.mark.attack("sends a head of 70 KB and waits for the answer")
@pytest.mark.parametrize("way", WAYS)
def test_too_large_a_head_is_told(target: Target, way: str) -> None:
    with target.connect(way) as one:
        one.sendall(head("GET", "/", more=f"X-Long: {'v' * 70_000}\r\n"))
        assert status(one) == 431
        assert is_ended(one, 10)
    with target.connect(way) as one:
        one.sendall(head("GET", RECORDS, token=target.token, more=f"X-Long: {'v' * 60_000}\r\n"))
        assert status(one) == 200


@pytest.mark.attack("has a token and sends a trailer of 100 MB behind the body of a block")
def test_endless_trailer(target: Target) -> None:
    before = target.memory()
    more = "Transfer-Encoding: chunked\r\n"
    with target.connect() as one:
        one.sendall(head("PUT", BLOCK, token=target.token, more=more) + b"3\r\nfoo\r\n0\r\n")
        assert pour(one, b"X-More: %s\r\n" % (b"v" * 60_000), 100_000_000) < 20_000_000
    assert target.memory() - before < 16 * MIB


@pytest.mark.attack("sends half of a head, or of a TLS handshake, on many connections and no more")
@pytest.mark.parametrize("way", [*WAYS, "handshake"])
def test_half_sent_heads(target: Target, way: str) -> None:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(PER_ADDRESS - 10):
            made = target.connect_plainly() if way == "handshake" else target.connect(way)
            opened.append(stack.enter_context(made))
            made.sendall(
                b"\x16\x03\x01" if way == "handshake" else b"GET / HTTP/1.1\r\nHost: x\r\n"
            )
        assert target.is_well()
        until = time.monotonic() + 2 * HEAD_SECONDS + 2
        assert all(is_ended(one, max(0.1, until - time.monotonic())) for one in opened)


@pytest.mark.attack("sends a byte of a head every half second")
def test_dripping_head(target: Target) -> None:
    began = time.monotonic()
    with target.connect() as one, contextlib.suppress(OSError):
        while time.monotonic() - began < 20:
            one.sendall(b"G")
            one.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                if not one.recv(100):
                    break
    assert time.monotonic() - began < HEAD_SECONDS + 5


@pytest.mark.attack("opens more idle connections than the server takes, and keeps them open")
@pytest.mark.parametrize("handshake", [True, False])
def test_idle_strangers_shut_nobody_out(target: Target, handshake: bool) -> None:
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(target.connect())
        known.sendall(head("GET", "/arvados/v1/users/current", token=target.token))
        assert status(known) == 200
        for _ in range(2 * PER_ADDRESS):
            made = target.connect() if handshake else target.connect_plainly()
            stack.enter_context(made)
        assert target.is_well()
        descriptors = len(list(Path(f"/proc/{target.pid}/fd").iterdir()))
        assert descriptors < PER_ADDRESS + 80
        # A connection that was known before goes on.
        known.settimeout(5)
        known.recv(1 << 16)
        known.sendall(head("GET", "/arvados/v1/users/current", token=target.token))
        assert status(known) == 200


@pytest.mark.attack("sends 200 bodies of 1 MiB without a token and keeps the connections open")
@pytest.mark.parametrize("path", PLACES[:4])
def test_bodies_of_strangers(target: Target, path: str) -> None:
    before = target.memory()
    answers = []
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            one = stack.enter_context(target.connect("unix"))
            method = "POST" if path == RECORDS else "PUT"
            more = f"Content-Length: {MIB}\r\nContent-Type: application/json\r\n"
            with contextlib.suppress(OSError):
                one.sendall(head(method, path, more=more) + b"[" * (MIB // 2))
            answers.append(status(one))
        assert target.memory() - before < 24 * MIB
        assert set(answers) <= {401, 404}
        assert target.is_well()


@pytest.mark.attack(
    "announces small bodies without a token on many connections and never sends them"
)
def test_promised_bodies_of_strangers(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(90):
            one = stack.enter_context(target.connect("unix"))
            one.sendall(head("POST", RECORDS, more="Content-Length: 65000\r\n"))
            opened.append(one)
        assert target.is_well()
        assert {status(one) for one in opened} == {408, 503}


@pytest.mark.attack(
    "asks with a refused token to send a large body, and sends it whatever the answer"
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", [RECORDS, BLOCK, COLLECTION])
def test_a_refused_body_is_not_read(target: Target, way: str, path: str) -> None:
    with target.connect(way) as one:
        more = f"Content-Length: {64 * MIB}\r\n"
        one.sendall(head("PUT", path, token="unknown", more=more))
        assert status(one) in (401, 404)
        assert pour(one, b"x" * MIB, 64 * MIB) < 32 * MIB


@pytest.mark.attack("sends 100,000 requests on one connection and reads no answer")
def test_requests_that_wait(target: Target) -> None:
    before = target.memory()
    with target.connect("unix") as one:
        pour(one, head("GET", "/arvados/v1/config") * 100, 4_000_000)
        assert target.memory() - before < 24 * MIB


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("hpc"))
    rig.up()
    try:
        yield rig
    finally:
        rig.down()


def connect_to_daemon(daemon: Rig, *, handshake: bool = True) -> socket.socket:
    plain = socket.create_connection((daemon.host, daemon.port), timeout=20)
    if not handshake:
        return plain
    context = ssl.create_default_context(cadata=daemon.identity.certificate)
    context.check_hostname = False
    return context.wrap_socket(plain)


@pytest.mark.attack(
    "keeps 300 idle connections to the daemon of an HPC container open, with and without TLS"
)
@pytest.mark.parametrize("handshake", [True, False])
def test_idle_strangers_of_a_daemon(daemon: Rig, handshake: bool) -> None:
    assert daemon.process is not None
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect_to_daemon(daemon, handshake=handshake))
        began = time.monotonic()
        assert daemon.query()["codeStatus"] == "Waiting"
        assert time.monotonic() - began < 5
        assert len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())) < 100


@pytest.mark.attack(
    "sends 250 MB of header lines, or of a body without the authorization, to an HPC daemon"
)
@pytest.mark.parametrize("more", ["", "Content-Length: 250000000\r\n\r\n"])
def test_endless_requests_to_a_daemon(daemon: Rig, more: str) -> None:
    assert daemon.process is not None
    before = memory_of(daemon.process.pid)
    with connect_to_daemon(daemon) as one:
        one.sendall(f"POST /v1/command HTTP/1.1\r\nHost: x\r\n{more}".encode())
        assert pour(one, b"X-Line: %s\r\n" % (b"v" * 60_000), 250_000_000) < 40_000_000
    assert memory_of(daemon.process.pid) - before < 16 * MIB
    assert daemon.query()["codeStatus"] == "Waiting"


@pytest.mark.attack("runs in an HPC container and looks for the daemon's key in every environment")
def test_the_key_of_a_daemon_is_in_no_environment(daemon: Rig) -> None:
    assert daemon.process is not None
    shown = Path(f"/proc/{daemon.process.pid}/environ").read_bytes()
    assert b"PRIVATE KEY" not in shown
    assert daemon.identity.authorization.encode() not in shown
    daemon.code("env; cat /proc/$PPID/environ; exit 0")
    daemon.start()
    until(lambda: daemon.query()["codeStatus"] != "Running")
    said = daemon.call("GET", "/v1/logs/stdout").body
    assert b"PATH=" in said
    assert b"PRIVATE KEY" not in said
    assert daemon.identity.authorization.encode() not in said
