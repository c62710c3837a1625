"""Published ports through the whole API and a real gateway, to a real server in a network of its
own.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lading.api.http import TAKE_OVER
from lading.core.containers import sessions
from lading.net.pipes import Pipe
from lading.supervisor.engines import EngineSettings
from lading.testing.engine import StubEngine
from lading.testing.world import World, world
from tests.api.container_access.test_shell_sessions import Caller
from tests.reality import need_program, need_root
from tests.supervisor.container_gateway.entering import gateway_of

PATIENCE = 180.0
PORT = {"access": "private", "label": "web", "initial_path": "start"}
SERVE = """
import fcntl, http.server, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.wfile.write(
                b"HTTP/1.1 101 Yes\\r\\nUpgrade: echo\\r\\nConnection: upgrade\\r\\n\\r\\n"
            )
            self.wfile.write(b"heard " + self.rfile.read(4))
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding"):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        text = f"{self.command} {self.path}\\n{self.headers}".encode() + body
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Mine", "1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"%x\\r\\n%b\\r\\n0\\r\\n\\r\\n" % (len(text), text))
    do_POST = do_PATCH = do_DELETE = do_HEAD = do_ANYTHING = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
print("up", flush=True)
server.serve_forever()
"""
HANGS = """
import fcntl, socket, struct, time
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
listening = socket.create_server(("127.0.0.1", 8000))
print("up", flush=True)
time.sleep(600)
"""


class InsideEngine(StubEngine):
    """A stub whose container is a process that is there already."""

    inside: int | None = None

    @property
    def first(self) -> int | None:
        return self.inside


@contextmanager
def container(program: str = SERVE) -> Iterator[int]:
    """A process in a network of its own, which serves port 8000 there and has printed `up` when it
    does.
    """
    need_root()
    need_program("unshare")
    command = ["unshare", "--fork", "--kill-child", "--net", "--pid", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        finally:
            process.kill()


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    domain: Any = {"ContainerWebServices": {"ExternalURL": "https://*.containers.example/"}}
    async with world(tmp_path, Services=domain) as made:
        yield made


@asynccontextmanager
async def serving(
    it: World,
    tmp_path: Path,
    *,
    access: str = "private",
    token: str | None = None,
    program: str = SERVE,
) -> AsyncIterator[Any]:
    """A running container whose port 8000 is published: the uuids of request and container."""
    published = {"8000": {**PORT, "access": access}}
    request = await it.submit(
        token=token, use_existing=False, service=True, published_ports=published
    )
    uuid = request["container_uuid"]
    engine = InsideEngine(
        EngineSettings(container_uuid=uuid, run_directory="/", cache_directory=str(tmp_path))
    )
    key = sessions.container_key(it.config.SystemRootToken, uuid)
    with container(program) as engine.inside:
        async with gateway_of(engine, uuid=uuid, key=key) as gateway:
            changes = {"state": "Running", "gateway_address": f"127.0.0.1:{gateway.port}"}
            await it.ok("PUT", f"containers/{uuid}", changes, token=await it.lock(uuid))
            yield request["uuid"], uuid


async def get(it: World, path: str, *, method: str = "GET", token: str = "", **headers: str) -> Any:
    """One request; without a token unless one is given."""
    sent = {"authorization": f"Bearer {token}"} if token else {"authorization": "none"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    name, _, query = path.partition("?")
    params = dict(part.split("=") for part in query.split("&")) if query else {}
    return await it.request(method, name, headers={**sent, **given}, params=params)


async def test_a_private_port_is_for_those_who_may_enter(it: World, tmp_path: Path) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    async with serving(it, tmp_path, token=alice) as (request, uuid):
        for name in (request, uuid):
            path = f"/services/{name}-8000/a/b?q=1"
            cookie = "arvados_api_token=c; __Host-lading=5; a=b"
            reply = await get(it, path, token=alice, x_arvados_secret="1", cookie=cookie)
            assert reply.status == 200
            text = reply.body.decode()
            assert text.startswith("GET /a/b?q=1\n")
            assert "cookie: a=b\n" in text.lower().replace("\r", "")
            assert alice not in text
            assert "arvados" not in text.lower()
            # The session of the page, which browsers send to this host too.
            assert "__Host" not in text
            assert (reply.headers["x-mine"], "transfer-encoding" in reply.headers) == ("1", False)
            assert "sandbox" in reply.headers["content-security-policy"]
        assert (await get(it, path)).status == 401
        for name, other in ((request, uuid), (uuid, request)):
            plural = "container_requests" if name == request else "containers"
            made = await it.ok(
                "POST",
                "api_client_authorizations",
                {"scopes": [f"GET /arvados/v1/{plural}/{name}"]},
                token=alice,
            )
            for target, status in ((name, 200), (other, 403)):
                reply = await get(it, f"/services/{target}-8000/", token=made["api_token"])
                assert reply.status == status
        assert (await get(it, path, token=bob)).status == 404
        assert (await get(it, path, token=it.admin)).status == 200
        assert (await get(it, f"/services/{uuid}-8001/", token=alice)).status == 404
        link = {"tail_uuid": (await it.ok("GET", "users/current", token=bob))["uuid"],
                "head_uuid": request, "link_class": "permission", "name": "can_read"}  # fmt: skip
        await it.ok("POST", "links", link)
        assert (await get(it, path, token=bob)).status == 403


async def test_a_public_port_is_everybodys_and_the_others_are_not(
    it: World, tmp_path: Path
) -> None:
    async with serving(it, tmp_path, access="public") as (_, uuid):
        assert (await get(it, f"/services/{uuid}-8000/")).status == 200
        assert (await get(it, f"/services/{uuid}-8001/")).status == 401


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "HEAD"])
async def test_methods_and_bodies(it: World, tmp_path: Path, method: str) -> None:
    async with serving(it, tmp_path, access="public") as (_, uuid):
        for headers in ({"content-length": "4"}, {"transfer-encoding": "chunked"}):
            sent = {"authorization": "none", **headers}
            reply = await it.request(method, f"/services/{uuid}-8000/x", raw=b"body", headers=sent)
            assert reply.status == 200
            text = reply.body.decode()
            assert (
                text == ""
                if method == "HEAD"
                else text.startswith(f"{method} /x\n") and text.endswith("body")
            )


async def test_by_host_and_the_token_becomes_a_cookie(it: World, tmp_path: Path) -> None:
    async with serving(it, tmp_path) as (_, uuid):
        host = f"{uuid}-8000.containers.example"
        moved = await get(it, f"/start?x=1&arvados_api_token={it.admin}", host=host)
        assert (moved.status, moved.headers["location"]) == (303, "/start?x=1")
        cookie = moved.headers["set-cookie"].partition(";")[0]
        assert "HttpOnly" in moved.headers["set-cookie"]
        reply = await get(it, "/start", host=host, cookie=cookie)
        assert reply.body.startswith(b"GET /start\n")
        assert "content-security-policy" not in reply.headers
        shown = (await it.ok("GET", f"containers/{uuid}"))["published_ports"]["8000"]
        assert shown["base_url"] == f"https://{host}/"
        assert shown["initial_url"] == f"https://{host}/start"


async def test_what_a_browser_adds_counts_for_pages_of_that_address_only(
    it: World, tmp_path: Path
) -> None:
    async with serving(it, tmp_path) as (_, uuid):
        host, kept = f"{uuid}-8000.containers.example", f"a=b; arvados_api_token={it.admin}"
        own = {"origin": f"https://{host}"}
        for sent, status in (
            ({}, 200), ({"sec_fetch_site": "same-origin"}, 200),
            ({"sec_fetch_site": "same-site"}, 401),
            ({"origin": "https://other.containers.example"}, 401), ({"origin": "null"}, 401),
        ):  # fmt: skip
            assert (await get(it, "/page", host=host, cookie=kept, **sent)).status == status, sent
        foreign = {"sec_fetch_site": "cross-site"}
        assert (
            await get(it, "/page", host=host, token=it.admin, cookie="a=b", **own, **foreign)
        ).status == 200
        worker = await get(
            it, f"/services/{uuid}-8000/sw.js", token=it.admin, service_worker="script"
        )
        assert worker.status == 403
        assert worker.headers["x-content-type-options"] == "nosniff"


async def test_a_websocket_is_passed_on(it: World, tmp_path: Path) -> None:
    async with serving(it, tmp_path, access="public") as (_, uuid):
        caller = Caller()
        call = asyncio.create_task(_upgrade(it, caller, f"/services/{uuid}-8000/socket"))
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert caller.pipe is not None
        assert b"X-Arvados" not in caller.head
        caller.pipe.writer.write(b"ping")
        assert await asyncio.wait_for(caller.pipe.reader.readexactly(10), PATIENCE) == b"heard ping"
        await caller.pipe.close()
        await asyncio.wait_for(call, PATIENCE)


async def test_a_caller_who_leaves_ends_the_connection_to_a_container_that_hangs(
    it: World, tmp_path: Path
) -> None:
    async with serving(it, tmp_path, access="public", program=HANGS) as (_, uuid):
        told = asyncio.Queue[dict[str, Any]]()
        await told.put({"type": "http.request", "body": b"", "more_body": False})
        scope = {
            "type": "http", "method": "GET", "path": f"/services/{uuid}-8000/", "query_string": b"",
            "client": ("127.0.0.1", 1), "headers": [],
        }  # fmt: skip
        answers: list[Any] = []

        async def send(message: Any) -> None:
            answers.append(message)

        call = asyncio.create_task(it.app(scope, told.get, send))
        await told.put({"type": "http.disconnect"})
        await asyncio.wait_for(call, PATIENCE)
        assert answers[0]["status"] == 503


async def _upgrade(it: World, caller: Caller, path: str) -> None:
    """As Caller.call, for a path outside the API."""

    async def take_over(head: bytes) -> Any:
        return await _taken(caller, head)

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        caller.status = message.get("status", caller.status)

    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"",
        "client": ("127.0.0.1", 1), "headers": [(b"upgrade", b"echo"), (b"connection", b"upgrade")],
        "extensions": {TAKE_OVER: take_over},
    }  # fmt: skip
    await it.app(scope, receive, send)  # type: ignore[arg-type]


async def _taken(caller: Caller, head: bytes) -> Any:
    ours, theirs = socket.socketpair()
    caller.head = head
    caller.pipe = Pipe(*await asyncio.open_connection(sock=ours))
    caller.taken.set()
    return Pipe(*await asyncio.open_connection(sock=theirs))


async def test_names_that_stand_for_nothing(it: World) -> None:
    request = await it.submit(use_existing=False)
    uuid = request["container_uuid"]
    for path, status in (
        ("/services/nonsense/", 400), (f"/services/{uuid}-0/", 400), (f"/services/{uuid}-80", 308),
        ("/services/zzzzz-dz642-000000000000000-80/", 404), (f"/services/{uuid}-80/", 503),
    ):  # fmt: skip
        assert (await get(it, path, token=it.admin)).status == status, path
    await it.run(uuid)
    assert (await get(it, f"/services/{uuid}-80/", token=it.admin)).status == 410
