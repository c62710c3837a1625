"""The way to a gateway, and its proof; more is in test_connecting.py."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.api.container_access.gateway_client import Gateway, choose_address, reach
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.core.containers.sessions import Places
from lading.core.errors import Corrupt, Unavailable
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.pipes import Pipe, read_head
from lading.testing.world import World, world
from tests.api.listening import Answer, arvados, listening

UUID = "zzzzz-dz642-000000000000001"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


async def test_only_the_expected_answer_is_believed() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        pipe = Pipe(*await asyncio.open_connection(sock=ours))
        gateway = Gateway(pipe, "uuid", "proof", "expected")
        gateway.check(
            HttpHead("HTTP/1.1 101 x", (("X-Arvados-Authorization-Response", "expected"),))
        )
        for said in ("", "proof", "unexpected"):
            with pytest.raises(Corrupt, match="did not prove"):
                gateway.check(
                    HttpHead("HTTP/1.1 101 x", (("X-Arvados-Authorization-Response", said),))
                )
        assert gateway.headers["X-Arvados-Authorization"] == "proof"
        await pipe.close()


def container(port: int) -> Container:
    return Container.from_record(
        {"uuid": UUID, "gateway_address": f"127.0.0.1:{port}", "state": "Running"}
    )


async def test_a_gateway_of_arvados_proves_itself_before_it_is_asked_anything(
    it: World, tmp_path: Path
) -> None:
    key = it.app.services.access.gateway_key(UUID)
    async with listening(tmp_path, arvados(key)) as listener:
        gateway = await reach(it.app.services.access, container(listener.port))
        assert [(one.start, sorted(name for name, _ in one.fields)) for one in listener.heard] == [
            (
                "GET / HTTP/1.1",
                ["Host", "X-Arvados-Authorization", "X-Arvados-Container-Gateway-Uuid"],
            )
        ]
        # The same connection takes the request itself.
        sent = HttpHead("GET /page HTTP/1.1", (("Host", "h"), *gateway.headers.items()))
        gateway.pipe.writer.write(sent.encode())
        gateway.check(http_head.parse_answer(await read_head(gateway.pipe, timeout=60)))
        assert listener.heard[-1].target == "/page"
        await gateway.pipe.close()


@pytest.mark.parametrize(
    "answer",
    [
        arvados("another key"),
        lambda *_: "",
        lambda *_: "nonsense\r\n\r\n",
        lambda *_: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        lambda request, _: (
            f"HTTP/1.1 200 OK\r\nX-Arvados-Authorization-Response: {request.fields[1][1]}\r\n\r\n"
        ),
    ],
)
async def test_who_proves_nothing_is_told_nothing(
    it: World, tmp_path: Path, answer: Answer
) -> None:
    async with listening(tmp_path, answer) as listener:
        with pytest.raises(Unavailable, match="does not answer, or is not that of this container"):
            await reach(it.app.services.access, container(listener.port))
        assert [one.target for one in listener.heard] == ["/"]


@pytest.mark.parametrize(
    "more",
    ["Connection: close\r\nContent-Length: 0\r\n\r\n", "Content-Length: 99999\r\n\r\n", "\r\n"],
)
async def test_a_proof_is_good_for_its_connection_only(
    it: World, tmp_path: Path, more: str
) -> None:
    key = it.app.services.access.gateway_key(UUID)
    async with listening(tmp_path, arvados(key, more=more)) as listener:
        with pytest.raises(Unavailable):
            await reach(it.app.services.access, container(listener.port))


async def test_a_gateway_that_breaks_off_in_its_answer(it: World, tmp_path: Path) -> None:
    prove = arvados(it.app.services.access.gateway_key(UUID), more="Content-Length: 3\r\n\r\n")
    async with listening(tmp_path, prove) as listener:
        listener.once = True
        with pytest.raises(Unavailable):
            await reach(it.app.services.access, container(listener.port))


async def test_an_address_says_nothing_about_what_is_there(it: World, tmp_path: Path) -> None:
    """Closed, another protocol, another gateway: all the same words."""
    said = set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    plain = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with listening(tmp_path, arvados("another key")) as listener:
        for port in (closed, plain.sockets[0].getsockname()[1], listener.port):
            with pytest.raises(Unavailable) as raised:
                await reach(it.app.services.access, container(port))
            said.add(raised.value.message)
    plain.close()
    assert len(said) == 1


LISTED = Places(source="192.0.2.1", hosts=("127.0.0.1",))


async def test_an_offered_address_is_used_where_the_gateway_answers(
    it: World, tmp_path: Path
) -> None:
    services = it.app.services
    key = services.access.gateway_key(UUID)
    async with listening(tmp_path, arvados(key)) as listener:
        address = f"127.0.0.1:{listener.port}"
        assert await choose_address(services, container(0), address, LISTED) == address
        assert len(listener.heard) == 1
        # The machine is not asked again.
        assert await choose_address(services, container(0), address, LISTED) == address
        assert len(listener.heard) == 1
    # A session that finds nobody there: the next container uses a tunnel.
    with pytest.raises(Unavailable):
        await reach(services.access, container(listener.port))
    assert await choose_address(services, container(0), address, LISTED) == "tunnel"


async def test_an_offered_address_at_which_somebody_else_answers(it: World, tmp_path: Path) -> None:
    async with listening(tmp_path, arvados("another key")) as listener:
        address = f"127.0.0.1:{listener.port}"
        assert await choose_address(it.app.services, container(0), address, LISTED) == "tunnel"
        assert len(listener.heard) == 1
        # Without its place in the configuration nothing is sent there: the loopback of the server
        # is not that of the machine, and a worker names no other machine.
        for places in (Places(source="127.0.0.1"), Places(source="192.0.2.1")):
            assert await choose_address(it.app.services, container(0), address, places) == "tunnel"
        assert len(listener.heard) == 1


async def test_servers_that_share_a_database_use_tunnels(it: World, tmp_path: Path) -> None:
    it.app.services.config.PostgreSQL.Connection["host"] = "db"
    async with listening(tmp_path, arvados("any")) as listener:
        address = f"127.0.0.1:{listener.port}"
        assert await choose_address(it.app.services, container(0), address, LISTED) == "tunnel"
        assert listener.heard == []


async def test_a_supervisor_offers_an_address(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    supervisor = await it.lock(uuid)
    body = {"state": "Running", "gateway_address": sessions.offer("127.0.0.1:40000")}
    # Only the supervisor of the container has its address tried.
    for token in (it.admin, it.dispatcher):
        assert (await it.request("PUT", f"containers/{uuid}", body, token=token)).status >= 400
    stored = await it.ok("PUT", f"containers/{uuid}", body, token=supervisor)
    assert (stored["state"], stored["gateway_address"]) == ("Running", "tunnel")
