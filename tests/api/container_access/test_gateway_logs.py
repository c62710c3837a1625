"""Live logs of containers whose supervisor is crunch-run, from a gateway that answers as
crunch-run's does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.api.container_access.gateway_client import make_claim
from lading.api.container_access.gateway_logs import is_gateway_source as is_source
from lading.core.containers import sessions
from lading.core.containers.container import TUNNEL, Container
from lading.core.protocols.forwarding_claims import Purpose
from lading.core.protocols.http_head import HttpHead
from lading.core.records.access import Principal
from lading.testing.world import World, world
from tests.api.listening import Answer, arvados, crunch_run, listening, running


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("asked", "status", "body", "shown"),
    [
        ("", 200, b"0123456789", None),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-0", 206, b"", "bytes 10-9/10"),
        ("bytes=10-", 416, None, None),
    ],
)
async def test_a_file(
    it: World, tmp_path: Path, asked: str, status: int, body: bytes, shown: str | None
) -> None:
    async with running(it, tmp_path) as (path, _, _):
        reply = await it.request(
            "GET", f"{path}/stdout.txt", headers={"range": asked} if asked else {}
        )
        assert (reply.status, reply.headers.get("content-range")) == (status, shown)
        if body is not None:
            assert (reply.body, reply.headers["content-length"]) == (body, str(len(body)))
            # A worker must not make pages of this server.
            assert reply.headers["content-type"].startswith("text/plain")
        assert (await it.request("HEAD", f"{path}/stdout.txt")).headers["content-length"] == "10"
        # arvados-client asks so how long a file is; without this range it shows nothing at all.
        empty = await it.request("GET", f"{path}/a b.txt", headers={"range": "bytes=-0"})
        assert (empty.status, empty.headers["content-range"]) == (206, "bytes 0--1/0")
        missing = await it.request("GET", f"{path}/none.txt")
        assert (missing.status, "no log 'none.txt' yet" in missing.error) == (404, True)


async def test_directories(it: World, tmp_path: Path) -> None:
    async with running(it, tmp_path) as (path, _, _):
        names = (await it.ok("GET", path))["items"]
        assert names == [{"name": name} for name in ("a b.txt", "c.txt", "stdout.txt")]
        listing = await it.request("PROPFIND", path)
        assert (listing.status, listing.body.count(b"<D:href>")) == (207, 4)
        assert (await it.request("PROPFIND", path, headers={"depth": "0"})).body.count(
            b"<D:href>"
        ) == 1
        assert "items" in await it.ok("GET", f"{path}/deep")


async def test_a_gateway_that_does_not_answer(it: World, tmp_path: Path) -> None:
    async with running(it, tmp_path, lambda _: arvados("another key")) as (path, uuid, listener):
        reply = await it.request("GET", f"{path}/stdout.txt")
        assert (reply.status, "does not answer" in reply.error) == (503, True)
        assert {one.target for one in listener.heard} == {"/"}, "nothing was asked of it"
        end = {"state": "Cancelled"}
        await it.ok("PUT", f"containers/{uuid}", end, token=it.dispatcher)
        assert (await it.request("GET", f"{path}/stdout.txt")).status == 404


@pytest.mark.parametrize("said", ["500 Internal Server Error", "302 Found", "nonsense"])
async def test_an_answer_that_is_none(it: World, tmp_path: Path, said: str) -> None:
    def strange(key: str) -> Answer:
        def answer(head: HttpHead, certificate: bytes) -> str:
            text = arvados(key)(head, certificate)
            return text if head.target == "/" else text.replace("404 Not Found", said)

        return answer

    async with running(it, tmp_path, strange) as (path, _, _):
        for one in (f"{path}/stdout.txt", path):
            reply = await it.request("GET", one)
            assert (reply.status, "try again" in reply.error) == (503, True)
        assert (await it.request("PROPFIND", path)).status == 503


async def test_our_own_supervisors_are_not_asked(it: World, tmp_path: Path) -> None:
    """Their logs are in the spool, as soon as there is anything."""
    request = await it.submit()
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    path = f"container_requests/{request['uuid']}/log/{uuid}"
    async with listening(
        tmp_path, crunch_run(it.app.services.access.gateway_key(uuid))
    ) as listener:
        changes = {"state": "Running", "gateway_address": f"127.0.0.1:{listener.port}"}
        await it.ok("PUT", f"containers/{uuid}", changes, token=supervisor)
        it.clock.advance(60)
        assert (await it.request("GET", f"{path}/stdout.txt")).status == 404
        assert (await it.ok("GET", path))["items"] == []
        assert listener.heard == []


async def test_what_a_server_did_not_hear_it_finds_out_once(it: World, tmp_path: Path) -> None:
    """Another server heard that the container runs, or this one was started since."""
    services = it.app.services
    async with running(it, tmp_path) as (_, _, listener):
        request = await it.submit(environment={"A": "B"})
        uuid = request["container_uuid"]
        await it.lock(uuid)
        await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=it.dispatcher)
        async with it.database.writing() as tx:
            address = f"127.0.0.1:{listener.port}"
            await tx.execute(
                "UPDATE containers SET gateway_address = ? WHERE uuid = ?", (address, uuid)
            )
        container = Container.from_record(await it.ok("GET", f"containers/{uuid}"))
        assert not is_source(services, container, uuid), (
            "a supervisor of Lading may still post for the first time"
        )
        it.clock.advance(60)
        assert is_source(services, container, uuid)
        services.access.spool.append(uuid, "stdout.txt", b"posted", offset=0)
        path = f"container_requests/{request['uuid']}/log/{uuid}/stdout.txt"
        assert (await it.request("GET", path)).body == b"posted"
        assert services.access.supervisors.find(container) is not None
        assert listener.heard == []


async def test_another_server_is_told_where_the_log_is(it: World, tmp_path: Path) -> None:
    """A call that another server passed on is answered from the gateway, or refused with 421
    without one.
    """
    services = it.app.services
    url = services.config.ExternalURL
    async with running(it, tmp_path) as (path, uuid, _):
        found = await it.ok("GET", "users/current")
        admin = Principal(user_uuid=found["uuid"], token_uuid="", token="")

        def proven(container: str) -> dict[str, str]:
            return {
                **make_claim(
                    services.clock, services.access, url, admin, container, Purpose.LOG, address=""
                ),
                "authorization": "",
            }

        reply = await it.request("GET", f"{path}/stdout.txt", headers=proven(uuid))
        assert (reply.status, reply.body) == (200, b"0123456789")
        other = await it.request(
            "GET", f"{path}/stdout.txt", headers=proven("zzzzz-dz642-000000000000009")
        )
        assert other.status == 401
    request = await it.submit(environment={"A": "B"})
    own = request["container_uuid"]
    await it.lock(own)
    reply = await it.request(
        "GET", f"container_requests/{request['uuid']}/log/{own}/stdout.txt", headers=proven(own)
    )
    assert reply.status == 421


async def test_a_server_that_cannot_be_reached(it: World, tmp_path: Path) -> None:
    async with running(it, tmp_path) as (path, uuid, _):
        async with it.database.writing() as tx:
            elsewhere = f"{TUNNEL} https://127.0.0.1:1/"
            await tx.execute(
                "UPDATE containers SET gateway_address = ? WHERE uuid = ?", (elsewhere, uuid)
            )
        assert (await it.request("GET", f"{path}/stdout.txt")).status == 503


async def test_an_earlier_part_of_a_log_that_is_posted_to_another_server(it: World) -> None:
    services, request = it.app.services, await it.submit()
    uuid = request["container_uuid"]
    token = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=token)
    services.access.spool.append(uuid, "stdout.txt", b"early", offset=0)
    async with it.database.writing() as tx:
        elsewhere = f"{TUNNEL} https://127.0.0.1:1/"
        await tx.execute(
            "UPDATE containers SET gateway_address = ? WHERE uuid = ?", (elsewhere, uuid)
        )
    container = Container.from_record(await it.ok("GET", f"containers/{uuid}"))
    assert not is_source(services, container, uuid), "it is posted here"
    services.access.spool.mark_left(uuid)
    assert is_source(services, container, uuid)
    # That server does not answer.
    path = f"container_requests/{request['uuid']}/log/{uuid}/stdout.txt"
    assert (await it.request("GET", path)).body == b"early"


async def test_the_key_of_a_dispatcher_that_derives_it_from_its_own_token(
    it: World, tmp_path: Path
) -> None:
    """Arvados' dispatchers use what they take for the root token; the log is still read from the
    right gateway.
    """

    def derived(_: str) -> Answer:
        return lambda head, certificate: crunch_run(keys[-1])(head, certificate)

    keys = [""]
    async with running(it, tmp_path, derived) as (path, uuid, _):
        keys.append(sessions.container_key(it.dispatcher, uuid))
        assert (await it.request("GET", f"{path}/stdout.txt")).body == b"0123456789"
        keys.append(sessions.container_key(it.dispatcher, "zzzzz-dz642-000000000000009"))
        assert (await it.request("GET", f"{path}/stdout.txt")).status == 503
