from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.client.transport import HttpTransport
from lading.core.errors import Unavailable
from lading.supervisor.assignment import Assignment
from lading.supervisor.session import Lost, Session, open_transport
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import AUTH_SECRET, AUTH_UUID, CONTAINER, SUPERVISOR_TOKEN, FakeServer


def assignment(**changes: Any) -> Assignment:
    return Assignment(
        **{
            "container_uuid": CONTAINER,
            "supervisor_token": SUPERVISOR_TOKEN,
            "run_directory": "/r",
            "cache_directory": "/c",
            "api_socket": "/s",
            "unreachable_timeout": 0.0,
            **changes,
        }
    )


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add_container()
    return server


def session(server: FakeServer, **changes: Any) -> Session:
    return Session(assignment(**changes), AsgiTransport(server))


async def test_opening_reads_record_and_token(server: FakeServer) -> None:
    opened = session(server)
    await opened.open()
    assert opened.container.output_path == "/out"
    assert opened.token == f"v2/{AUTH_UUID}/{AUTH_SECRET}/{CONTAINER}"


@pytest.mark.parametrize("status", [401, 403, 404, 422])
async def test_a_refusal_means_that_it_is_not_ours(server: FakeServer, status: int) -> None:
    server.faults = {"GET auth": [status]}
    with pytest.raises(Lost):
        await session(server).open()


async def test_an_unreachable_server_is_not_a_refusal(server: FakeServer) -> None:
    server.faults = {"GET containers": [503]}
    with pytest.raises(Unavailable):
        await session(server).open()


async def test_nothing_is_tried_again_once_the_run_directory_is_gone(server: FakeServer, tmp_path: Path) -> None:
    server.faults = {"GET containers": [503, 503], "GET auth": [503]}
    with pytest.raises(Lost, match="is gone"):
        await session(server, unreachable_timeout=60.0, run_directory=str(tmp_path / "none")).open()
    assert server.calls.count("GET containers") == 1


async def test_secrets_that_are_not_there(server: FakeServer) -> None:
    opened = session(server)
    await opened.open()
    assert await opened.secrets() == {}
    server.faults = {"GET secret_mounts": [404]}
    assert await opened.secrets() == {}
    server.containers[CONTAINER]["secret_mounts_md5"] = "99914b932bd37a50b983c5e7c90ae93b"
    await opened.open()
    assert await opened.secrets() == {}
    assert server.calls.count("GET secret_mounts") == 2


async def test_the_log_is_one_collection(server: FakeServer) -> None:
    opened = session(server)
    await opened.open()
    await opened.save_interim_log("")
    record = server.containers[CONTAINER]
    assert record["log"] == "d41d8cd98f00b204e9800998ecf8427e+0"
    pdh = await opened.save_log(". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:foo\n")
    assert [one["portable_data_hash"] for one in server.collections.values()] == [pdh]


def test_ways_to_the_server(tmp_path: Path) -> None:
    for changes, address in (({}, "/s"), ({"api_socket": "", "api_url": "https://h:1"}, "https://h:1")):
        way = open_transport(assignment(**changes))
        assert isinstance(way, HttpTransport)
        assert way.address == address
