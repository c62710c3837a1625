"""What `arvados-client`, `crunch-run` and `keepproxy` of Arvados 3.2.1 send, byte for byte, to
`lading up`.

The requests were recorded on the way from the programs to a server: Go's HTTP client names itself
and asks for gzip; the programs' own requests for sessions and tunnels name the whole address, and
switch protocols without `Connection`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, running_cluster

pytestmark = [pytest.mark.system, pytest.mark.quick]
PATIENCE = 60.0

SWITCH = (
    "POST https://{host}/arvados/v1/connect/{uuid}/{name} HTTP/1.1\r\n"
    "Authorization: Bearer {token}\r\n"
    "Host: {host}\r\n"
    "Upgrade: {protocol}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\n"
    "Content-Length: {length}\r\n"
    "\r\n"
    "{form}"
)
BARE = (
    "OPTIONS {path} HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "User-Agent: Go-http-client/1.1\r\n"
    "Authorization: Bearer {token}\r\n"
    "Accept-Encoding: gzip\r\n"
    "\r\n"
)
RANGE = (
    "GET {path} HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "User-Agent: Go-http-client/1.1\r\n"
    "Authorization: Bearer {token}\r\n"
    "Range: bytes={range}\r\n"
    "\r\n"
)
GET = (
    "GET {path} HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "User-Agent: Go-http-client/1.1\r\n"
    "Authorization: Bearer {token}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\n"
    "X-Request-Id: req-1aft55m2li1bm1kyekb3\r\n"
    "Accept-Encoding: gzip\r\n"
    "\r\n"
)
BLOCK = (
    "PUT /{name} HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "User-Agent: Go-http-client/1.1\r\n"
    "Content-Length: {length}\r\n"
    "Authorization: Bearer {token}\r\n"
    "Content-Type: application/octet-stream\r\n"
    "Via: HTTP/1.1 keepproxy\r\n"
    "X-Keep-Desired-Replicas: {copies}\r\n"
    "X-Keep-Storage-Classes: default\r\n"
    "X-Request-Id: req-65q1vku147bhuepw3a3y\r\n"
    "Accept-Encoding: gzip\r\n"
    "\r\n"
    "{form}"
)
FORM = (
    "{method} {path} HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "User-Agent: Go-http-client/1.1\r\n"
    "Content-Length: {length}\r\n"
    "Authorization: Bearer {token}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\n"
    "X-Request-Id: req-e898we987mcd1ik6n1h4\r\n"
    "Accept-Encoding: gzip\r\n"
    "\r\n"
    "{form}"
)


@dataclass(frozen=True)
class Running:
    """A cluster, and a container that runs in it."""

    cluster: Cluster
    request: str
    container: str

    def connect(self) -> ssl.SSLSocket:
        """A TLS connection, as the programs open it with ARVADOS_API_HOST_INSECURE."""
        host, _, port = self.cluster.address.rpartition(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(socket.create_connection((host, int(port)), timeout=PATIENCE))

    def fill(self, template: str, *, form: str = "", **more: str) -> bytes:
        """The bytes of a request."""
        token = self.cluster.environment["ARVADOS_API_TOKEN"]
        known = {"host": self.cluster.address, "token": token, "uuid": self.container}
        return template.format(**{**known, **more}, form=form, length=len(form)).encode()

    def ask(self, template: str, **more: str) -> tuple[int, dict[str, str], bytes]:
        """Status, header fields and body of the answer to one request."""
        with self.connect() as peer:
            peer.sendall(self.fill(template, **more))
            status, fields, rest = read_head(peer)
            if template is BARE or status in (204, 304):
                return status, fields, rest
            while len(rest) < int(fields.get("content-length", "0")) and (
                data := peer.recv(1 << 16)
            ):
                rest += data
        return status, fields, rest

    def log(self, name: str) -> str:
        """The path of a file of the log."""
        return f"/arvados/v1/container_requests/{self.request}/log/{self.container}/{name}"


def read_head(peer: ssl.SSLSocket) -> tuple[int, dict[str, str], bytes]:
    """Status and header fields of an answer, and what came behind them."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = peer.recv(1 << 16)
        assert piece, f"the connection ended after {data!r}"
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    start, *lines = head.decode("latin-1").split("\r\n")
    fields = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    return int(start.split(" ")[1]), fields, rest


def document(answer: tuple[int, dict[str, str], bytes]) -> Any:
    """The JSON of an answer that has to be one."""
    status, _, body = answer
    assert status == 200, body
    return json.loads(body)


def wait_for_log(cluster: Cluster, uuid: str, *words: str) -> None:
    """Until all these words are in the log of a request."""
    command = ["timeout", str(PATIENCE), LADING, "request", "logs", "-f", uuid]
    with subprocess.Popen(
        command,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as following:
        assert following.stdout is not None
        told = ""
        while not all(word in told for word in words):
            line = following.stdout.readline()
            assert line, f"{words} are not all in {told!r}"
            told += line
        following.terminate()


@pytest.fixture(scope="module", params=["direct", "tunnel"])
def it(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    need_root()
    need_program("crun")
    config = "Containers:\n  StopGracePeriod: 500ms\n"
    if request.param == "tunnel":
        config += "  GatewayAddress: tunnel\n"
    with running_cluster(tmp_path_factory.mktemp("go") / "data", config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        said = cluster.lading(
            "run", "--detach", "--", "sh", "-c", "echo hello; echo careful >&2; exec sleep 600"
        )
        uuid = said.stdout.strip()
        wait_for_log(cluster, uuid, "hello", "careful")
        asked = Running(cluster, uuid, "")
        found = document(asked.ask(GET, path=f"/arvados/v1/container_requests/{uuid}"))
        running = Running(cluster, uuid, found["container_uuid"])
        yield running
        cluster.lading("request", "cancel", uuid)


def test_connect_ssh(it: Running) -> None:
    """`arvados-client shell` and `connect-ssh`: the SSH server of the container greets behind the
    101.
    """
    form = "detach_keys=&login_username=root&no_forward=false"
    for uuid in (it.container, it.request):
        with it.connect() as peer:
            peer.sendall(it.fill(SWITCH, uuid=uuid, name="ssh", protocol="ssh", form=form))
            status, fields, rest = read_head(peer)
            assert (status, fields["upgrade"].lower(), fields["connection"].lower()) == (
                101,
                "ssh",
                "upgrade",
            )
            while not rest.endswith(b"\n"):
                rest += peer.recv(1 << 16)
            assert rest.startswith(b"SSH-2.0-")
            peer.sendall(b"SSH-2.0-Go\r\n")
            assert peer.recv(1)
    path = f"/arvados/v1/containers/{it.container}"
    assert document(it.ask(GET, path=path))["interactive_session_started"] is True


def test_a_tunnel_is_for_the_supervisor(it: Running) -> None:
    """crunch-run's tunnel: understood, and refused to whoever does not have the secret of the
    container.
    """
    form = f"auth_secret={'0' * 64}"
    status, _, body = it.ask(SWITCH, name="gateway_tunnel", protocol="tunnel", form=form)
    assert (status, b"this is not the supervisor of the container" in body) == (401, True)


def test_logs(it: Running) -> None:
    """`arvados-client logs`: whether the server has logs, how long the files are, and what is in
    them.
    """
    path = f"/arvados/v1/container_requests/{it.request}/log/"
    assert it.ask(BARE, path=path)[0] in (200, 204)
    select = quote('["uuid","container_uuid","state"]', safe="")
    found = document(
        it.ask(GET, path=f"/arvados/v1/container_requests/{it.request}?select={select}")
    )
    assert found["container_uuid"] == it.container
    for name, text in (
        ("stderr.txt", b" careful\n"),
        ("stdout.txt", b" hello\n"),
        ("crunch-run.txt", b"supervising"),
    ):
        status, fields, body = it.ask(RANGE, path=it.log(name), range="-0")
        assert (status, body) == (206, b"")
        size = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields["content-range"])
        assert size is not None
        first, last, length = (int(one) for one in size.groups())
        assert first == last + 1 == length > 0
        status, fields, body = it.ask(RANGE, path=it.log(name), range="0-")
        assert (status, text in body) == (206, True)
        assert fields["content-range"].startswith("bytes 0-")
    assert it.ask(RANGE, path=it.log("nothing.txt"), range="-0")[0] == 404


def test_diagnostics(it: Running) -> None:
    """`arvados-client diagnostics`: forms as Go encodes them, records made and deleted, lists
    without `count`.
    """
    assert (
        document(it.ask(GET, path="/discovery/v1/apis/arvados/v1/rest"))["kind"]
        == "discovery#restDescription"
    )
    config = document(it.ask(GET, path="/arvados/v1/config"))
    assert config["Workbench"]["UserProfileFormFields"] == {}
    me = document(it.ask(GET, path="/arvados/v1/users/current"))["uuid"]
    every = "cluster_id=&count=&limit=999999&offset=0"
    assert document(it.ask(GET, path=f"/arvados/v1/keep_services/accessible?{every}"))["items"]
    assert document(it.ask(GET, path=f"/arvados/v1/virtual_machines?{every}"))["items"] == []
    filters = quote(json.dumps([["name", "=", "scratch area"], ["owner_uuid", "=", me]]), safe="")
    assert (
        document(it.ask(GET, path=f"/arvados/v1/groups?filters={filters}&{every}"))["items"] == []
    )
    form = "group=%7B%22group_class%22%3A%22project%22%2C%22name%22%3A%22scratch+area%22%7D"
    project = document(it.ask(FORM, method="POST", path="/arvados/v1/groups", form=form))["uuid"]
    wanted = quote(json.dumps({"name": "test", "owner_uuid": project}), safe="")
    form = f"collection={wanted}&ensure_unique_name=true"
    made = document(it.ask(FORM, method="POST", path="/arvados/v1/collections", form=form))
    assert made["owner_uuid"] == project
    gone = {"method": "DELETE", "form": "select=%5B%22uuid%22%5D"}
    answer = document(it.ask(FORM, path=f"/arvados/v1/collections/{made['uuid']}", **gone))
    assert answer["uuid"] == made["uuid"]
    document(it.ask(FORM, path=f"/arvados/v1/groups/{project}", **gone))


def test_keepproxy(it: Running) -> None:
    """What keepproxy sends on: as many copies as it asks for are confirmed, in each class, by this
    one service.
    """
    data = "what keepproxy was given"
    name = hashlib.md5(data.encode(), usedforsecurity=False).hexdigest()
    for copies in ("1", "2"):
        status, fields, body = it.ask(BLOCK, name=name, copies=copies, form=data)
        assert (status, fields["x-keep-replicas-stored"]) == (200, copies)
        assert fields["x-keep-storage-classes-confirmed"] == f"default={copies}"
    locator = body.decode().strip()
    assert it.ask(GET, path=f"/{locator}")[2] == data.encode()


def test_addresses_that_are_none(it: Running) -> None:
    """What a browser, or a program that guesses, asks for is answered as by a server of records."""
    assert document(it.ask(GET, path="/"))["name"] == "Lading"
    for path in ("/favicon.ico", "/robots.txt", "/arvados/v1/nothing"):
        status, _, body = it.ask(GET, path=path)
        assert (status, b"there is nothing at " + path.encode() in body) == (404, True)


def test_the_program_itself(it: Running) -> None:
    """Where `arvados-client` is installed: a command in the container, its exit code, and the
    log.
    """
    program = shutil.which("arvados-client")
    if program is None:
        pytest.skip("arvados-client is not installed; its requests are above")
    need_program("ssh")
    environment = it.cluster.environment

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert run("connect-ssh", "-probe-only", it.container).stdout.strip() == it.container
    done = run("shell", it.request, "echo inside; exit 3")
    assert (done.returncode, done.stdout) == (3, "inside\n"), done.stderr
    assert " careful\n" in run("logs", it.request).stdout
