"""The websocket of a shell on the page, with a real server and a real container: who may open it,
what it takes, and what is left of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import aiohttp
import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.desk import Desk, desk_of

pytestmark = pytest.mark.system
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
_MARK = "sleep 424242"
_PATIENCE = 60.0


@dataclass(kw_only=True)
class Visitor:
    """Somebody with a session of the page, without a browser."""

    http: aiohttp.ClientSession
    origin: str
    cookie: str

    async def post(self, path: str, **changes: str) -> tuple[int, str]:
        """Send a form as the page does; `changes` are of headers, or the form's token."""
        page = await self._text("/ui/")
        found = re.search(r'name="form_token" value="(\w+)"', page)
        form = {"login": "root", "form_token": changes.pop("form_token", found[1] if found else "")}
        given = {**_FORM, "Cookie": self.cookie, **changes}
        headers = {name: one for name, one in given.items() if one}
        async with self.http.post(
            f"{self.origin}{path}", data=form, headers=headers, ssl=False, allow_redirects=False
        ) as answer:
            return answer.status, await answer.text()

    async def ticket(self, request: str) -> str:
        """A ticket for a shell."""
        status, text = await self.post(f"/ui/requests/{request}/shell/ticket")
        assert status == 200, text
        return str(json.loads(text)["ticket"])

    def connect(self, request: str, **changes: str) -> Any:
        """A websocket that has said nothing; `changes` are of headers, "" takes one away."""
        headers = {"Cookie": self.cookie, "Origin": self.origin, **changes}
        return self.http.ws_connect(
            f"{self.origin}/ui/requests/{request}/shell/socket",
            headers={name: one for name, one in headers.items() if one},
            ssl=False,
            max_msg_size=0,
        )

    @asynccontextmanager
    async def shell(self, request: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A shell that has said something."""
        ticket = await self.ticket(request)
        async with self.connect(request) as socket:
            await socket.send_json({"ticket": ticket, "columns": 80, "rows": 24})
            await socket.send_bytes(b"echo rea''dy\r")
            await _until(socket, b"ready")
            yield socket

    async def _text(self, path: str) -> str:
        headers = {"Cookie": self.cookie, "Sec-Fetch-Site": "none"}
        async with self.http.get(f"{self.origin}{path}", headers=headers, ssl=False) as answer:
            return await answer.text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    config = "Containers: {StopGracePeriod: 500ms, LogUpdatePeriod: 100ms}\n"
    with running_cluster(tmp_path_factory.mktemp("shell") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "echo")
        yield running


@pytest.fixture
async def desk(cluster: Cluster) -> AsyncIterator[Desk]:
    async with desk_of(cluster) as made:
        yield made


@pytest.fixture
async def request_(desk: Desk) -> AsyncIterator[str]:
    """A request of the admin whose command runs."""
    uuid = await desk.submit("while :; do sleep 1; done")
    await desk.until(uuid, "Running")
    await asyncio.to_thread(desk.cluster.lading, "shell", "--wait", uuid, "--", "true")
    yield uuid
    await desk.cancel(uuid)
    await desk.until(uuid, "Complete", "Cancelled")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as made:
        yield made


@pytest.fixture
async def admin(desk: Desk, http: aiohttp.ClientSession) -> Visitor:
    return await _log_in(desk, http, desk.client.token)


async def _log_in(desk: Desk, http: aiohttp.ClientSession, token: str) -> Visitor:
    origin = f"https://{desk.cluster.address}"
    async with http.post(
        f"{origin}/ui/login", data={"token": token}, headers=_FORM, ssl=False, allow_redirects=False
    ) as answer:
        assert answer.status == 303
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    return Visitor(http=http, origin=origin, cookie=cookie)


async def _mallory(desk: Desk, http: aiohttp.ClientSession) -> Visitor:
    user = await desk.client.create("users", {"username": "mallory"}, ensure_unique_name=True)
    made = await desk.client.create("api_client_authorizations", {"owner_uuid": user["uuid"]})
    return await _log_in(desk, http, f"v2/{made['uuid']}/{made['api_token']}")


async def _until(socket: aiohttp.ClientWebSocketResponse, text: bytes) -> None:
    """Read until this was said. Raises AssertionError at the end of the connection."""
    seen = b""
    async with asyncio.timeout(_PATIENCE):
        while text not in seen:
            message = await socket.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, message
            seen += message.data


async def _ending(socket: aiohttp.ClientWebSocketResponse) -> str:
    """Read to the end; what the page says about it, else the code of the end."""
    said = ""
    async with asyncio.timeout(_PATIENCE):
        while True:
            message = await socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                said = str(json.loads(message.data)["ended"])
            elif message.type is not aiohttp.WSMsgType.BINARY:
                return said or str(socket.close_code)


def _sleepers() -> int:
    """Processes of this machine that a test has started in a container."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes().replace(b"\0", b" ").strip() == _MARK.encode()
        except OSError:
            continue
    return found


def _memory(cluster: Cluster) -> int:
    """Bytes that the server has in memory."""
    [server] = cluster.pids("server")
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server}/status").read_text())
    assert found
    return int(found[1]) << 10


@pytest.mark.attack("a page of another site opens a shell with the cookie of the reader")
async def test_another_site_opens_no_shell(admin: Visitor, request_: str) -> None:
    ticket = await admin.ticket(request_)
    wrong = [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""},
        {"Origin": admin.origin.replace("https", "http")}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Cookie": ""}, {"Cookie": "__Host-lading=" + "f" * 64},
    ]  # fmt: skip
    for changes in wrong:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with admin.connect(request_, **changes):
                pass
        assert refused.value.status == 403
    # None of them has used the ticket up.
    async with admin.connect(request_) as socket:
        await socket.send_json({"ticket": ticket, "columns": 80, "rows": 24})
        await socket.send_bytes(b"echo rea''dy\r")
        await _until(socket, b"ready")


@pytest.mark.attack("a page of another site gets a ticket of a shell")
async def test_a_ticket_needs_a_form_of_the_page(admin: Visitor, request_: str) -> None:
    path = f"/ui/requests/{request_}/shell/ticket"
    for changes in ({"form_token": ""}, {"form_token": "00" * 64}, {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "", "Origin": "https://evil.example"}):  # fmt: skip
        assert (await admin.post(path, **changes))[0] == 403
    assert (await admin.post(path, Cookie=""))[0] in (303, 403)


@pytest.mark.attack("a user opens a shell in the container of another user by the page")
async def test_a_shell_of_another_user(
    desk: Desk, http: aiohttp.ClientSession, admin: Visitor, request_: str
) -> None:
    mallory = await _mallory(desk, http)
    status, text = await mallory.post(f"/ui/requests/{request_}/shell/ticket")
    assert (status, "ticket" in text) == (404, False)
    stolen = await admin.ticket(request_)
    async with mallory.connect(request_) as socket:
        await socket.send_json({"ticket": stolen, "columns": 80, "rows": 24})
        assert "not yours" in await _ending(socket)
    # It was taken with that.
    async with admin.connect(request_) as socket:
        await socket.send_json({"ticket": stolen, "columns": 80, "rows": 24})
        assert "not yours" in await _ending(socket)


@pytest.mark.attack("a message of a shell on the page fills the memory of the server")
async def test_messages_are_bounded(cluster: Cluster, admin: Visitor, request_: str) -> None:
    before = _memory(cluster)
    for size, as_text in ((70_000, False), (70_000, True), (8 << 20, False)):
        for has_ticket in (False, True):
            async with AsyncExitStack() as stack:
                way = admin.shell(request_) if has_ticket else admin.connect(request_)
                socket = await stack.enter_async_context(way)
                try:
                    if as_text:
                        await socket.send_str("x" * size)
                    else:
                        await socket.send_bytes(bytes(size))
                except ConnectionError:
                    # It was cut off while it was sent.
                    continue
                said = await _ending(socket)
                assert "more than 65536 bytes" in said or said in ("1009", "1006")
    assert _memory(cluster) - before < 40 << 20


@pytest.mark.attack("typed input that nobody reads fills the memory of the server")
async def test_a_flood_of_input_waits(cluster: Cluster, admin: Visitor, request_: str) -> None:
    async with admin.shell(request_) as socket:
        # Nothing reads what is typed: the terminal keeps four KiB and drops the rest.
        await socket.send_bytes(b"sleep 60\r")
        before, sent = _memory(cluster), 0
        try:
            async with asyncio.timeout(5):
                while sent < 256 << 20:
                    await socket.send_bytes(b"x" * 60_000)
                    sent += 60_000
        except (TimeoutError, ConnectionError):
            # The server reads no more, or has ended the shell.
            pass
        assert _memory(cluster) - before < 40 << 20
    # Others are served.
    async with admin.shell(request_):
        pass


@pytest.mark.attack("connections without a ticket stay open")
async def test_who_says_nothing_is_sent_away(admin: Visitor, request_: str) -> None:
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(admin.connect(request_)) for _ in range(100)]
        # Floods of what is no ticket end at the first message.
        await sockets[0].send_json({"columns": 80, "rows": 24})
        assert "ticket" in await _ending(sockets[0])
        said = await asyncio.gather(*(_ending(one) for one in sockets[1:]))
        assert all("did not begin with a ticket" in one for one in said)


@pytest.mark.attack("a shell goes on after its browser has gone")
async def test_a_closed_connection_ends_the_shell(
    desk: Desk, admin: Visitor, request_: str
) -> None:
    for is_cut in (False, True):
        async with admin.shell(request_) as socket:
            await socket.send_bytes(f"exec {_MARK}\r".encode())
            async with asyncio.timeout(_PATIENCE):
                while not _sleepers():
                    await asyncio.sleep(0.05)
            if is_cut:
                # Without a word: the connection breaks below TLS and the websocket.
                socket.get_extra_info("socket").shutdown(SHUT_RDWR)
        async with asyncio.timeout(_PATIENCE):
            while _sleepers():
                await asyncio.sleep(0.05)
    show = ("request", "logs", request_, "--file", "crunch-run.txt")
    async with asyncio.timeout(_PATIENCE):
        # Lines of a running container come a moment later.
        while desk.cluster.lading(*show).stdout.count("a session in the container has ended") < 2:
            await asyncio.sleep(0.1)
