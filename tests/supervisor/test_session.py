from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.client.transport import HttpTransport
from lading.core.errors import Unavailable
from lading.supervisor.session import Lost, SupervisorSession, open_transport
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import (
    AUTH_SECRET,
    AUTH_UUID,
    CONTAINER,
    SUPERVISOR_TOKEN,
    FakeServer,
)
from lading.testing.world import world

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def assignment(**changes: Any) -> SupervisorConfig:
    return SupervisorConfig(
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


def session(server: FakeServer, **changes: Any) -> SupervisorSession:
    return SupervisorSession(assignment(**changes), AsgiTransport(server))


async def test_opening_reads_record_and_token(server: FakeServer) -> None:
    opened = session(server)
    await opened.open()
    assert opened.container.output_path == "/out"
    assert opened.token == f"v2/{AUTH_UUID}/{AUTH_SECRET}/{CONTAINER}"


async def test_what_came_with_the_assignment_is_not_asked_for(server: FakeServer) -> None:
    auth = {"uuid": AUTH_UUID, "api_token": AUTH_SECRET}
    opened = session(server, records={"container": server.containers[CONTAINER], "auth": auth})
    await opened.open()
    assert opened.container.output_path == "/out"
    assert opened.token == f"v2/{AUTH_UUID}/{AUTH_SECRET}/{CONTAINER}"
    assert server.calls == []


@pytest.mark.parametrize("status", [401, 403, 404, 422])
async def test_a_refusal_means_that_it_is_not_ours(server: FakeServer, status: int) -> None:
    server.faults = {"GET auth": [status]}
    with pytest.raises(Lost):
        await session(server).open()


async def test_an_unreachable_server_is_not_a_refusal(server: FakeServer) -> None:
    server.faults = {"GET containers": [503]}
    with pytest.raises(Unavailable):
        await session(server).open()


async def test_nothing_is_tried_again_once_the_run_directory_is_gone(
    server: FakeServer, tmp_path: Path
) -> None:
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


async def test_a_saved_log_is_a_collection_that_stays_as_it_is(server: FakeServer) -> None:
    opened = session(server)
    await opened.open()
    await opened.save_interim_log("")
    record = server.containers[CONTAINER]
    assert record["log"] == "d41d8cd98f00b204e9800998ecf8427e+0"
    pdh = await opened.save_log(". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:foo\n")
    assert [one["portable_data_hash"] for one in server.collections.values()] == [
        record["log"],
        pdh,
    ]
    assert "PUT collections" not in server.calls
    # Lists of the user's data know it by this.
    told = [one["properties"] for one in server.collections.values()]
    assert told == [{"type": "log", "container_uuid": CONTAINER}] * 2


def test_ways_to_the_server(tmp_path: Path) -> None:
    for changes, address in (
        ({}, "/s"),
        ({"api_socket": "", "api_url": "https://h:1"}, "https://h:1"),
    ):
        way = open_transport(assignment(**changes))
        assert isinstance(way, HttpTransport)
        assert way.address == address


async def test_of_two_supervisors_with_one_token_one_may_run(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        uuid = (await it.submit())["container_uuid"]
        told = assignment(container_uuid=uuid, supervisor_token=await it.lock(uuid))
        moments = [MOMENT.replace(microsecond=number) for number in (1, 2)]
        first, second = (
            SupervisorSession(told, AsgiTransport(it.app), clock=[one].pop) for one in moments
        )
        for one in (first, second):
            await one.open()
        await first.report_running()
        await first.report_running()
        with pytest.raises(Lost, match="Started at cannot be modified"):
            await second.report_running()


async def test_a_container_runs_without_a_gateway_that_the_server_does_not_connect_to(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        uuid = (await it.submit())["container_uuid"]
        told = assignment(container_uuid=uuid, supervisor_token=await it.lock(uuid))
        one = SupervisorSession(told, AsgiTransport(it.app), clock=lambda: MOMENT)
        await one.open()
        assert "HOST must be the address" in await one.report_running(gateway="192.0.2.7:9000")
        assert (await it.ok("GET", f"containers/{uuid}"))["state"] == "Running"
        assert await one.report_running(gateway="tunnel") == ""
        # The server has not reached it, and has stored a tunnel.
        assert "does not reach" in await one.report_running(gateway="try 192.0.2.7:9000")


async def test_who_joins_may_find_it_running(server: FakeServer) -> None:
    for state, word in (("Locked", ""), ("Running", ""), ("Queued", "not Locked or Running")):
        server.containers[CONTAINER]["state"] = state
        session = SupervisorSession(assignment(), AsgiTransport(server))
        if not word:
            await session.join()
            assert session.container.state == state
            continue
        with pytest.raises(Lost):
            await session.join()
