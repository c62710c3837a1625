"""A hostile worker, and what it can make the server connect to and say."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.protocols import forwarding_claims
from lading.core.protocols.forwarding_claims import HEADER, LIFE, ForwardingClaim, Purpose
from tests.security.serving import Site, serving, trap

pytestmark = pytest.mark.system
SECRET = "/what-only-the-owner-asks-for"
FORM = {"content_type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path / "data") as made:
        yield made


async def enter(site: Site, uuid: str, token: str) -> str:
    """All that the owner does with a container whose supervisor is hostile; the errors that it
    gets.
    """
    said = []
    for path in (f"/arvados/v1/connect/{uuid}/ssh", f"/arvados/v1/containers/{uuid}/ssh"):
        reply = await site.call(
            "POST", path, token=token, data=b"", Upgrade="ssh", Connection="upgrade", **FORM
        )
        assert reply.status == 503, reply.text
        said.append(reply.text.partition(" (req-")[0])
    cookie = f"arvados_api_token={token}; other=1"
    for header in ({"token": token}, {"Cookie": cookie}):
        reply = await site.call("GET", f"/services/{uuid}-8000{SECRET}", **header)
        assert reply.status == 503, reply.text
        said.append(reply.text)
    return "\n".join(said)


@pytest.mark.attack(
    "a worker names a server of its own as the holder of the tunnel, "
    "and waits for its users' tokens"
)
async def test_a_tunnel_elsewhere_steals_no_token(site: Site) -> None:
    alice = await site.user("alice")
    uuid = (await site.request(alice))["container_uuid"]
    supervisor = await site.lock(uuid)
    # Its certificate is one that the server trusts, as that of a public authority would be.
    async with trap(site.directory.certificate, site.directory.key) as (port, heard):
        elsewhere = f"tunnel https://127.0.0.1:{port}/"
        assert (
            await site.write(uuid, supervisor, state="Running", gateway_address=elsewhere)
        ).status == 422
        assert (
            await site.write(uuid, supervisor, state="Running", gateway_address="tunnel")
        ).status == 200
        assert (await site.write(uuid, supervisor, gateway_address=elsewhere)).status == 422
        # A record of a former release, or an admin who writes into the database.
        with sqlite3.connect(site.directory.database) as database:
            database.execute(
                "UPDATE containers SET gateway_address = ? WHERE uuid = ?", (elsewhere, uuid)
            )
        await enter(site, uuid, alice)
        said = bytes(heard)
        assert b"ssh" in said
        assert SECRET.encode() in said
        assert alice.rpartition("/")[2].encode() not in said
        lines = (line.partition(": ") for line in said.decode().split("\r\n"))
        proofs = {value for name, _, value in lines if name.lower() == HEADER}
    assert proofs
    await site.admin.update("containers", uuid, {"gateway_address": ""})
    for proof in proofs:
        given = {HEADER: proof}
        for headers in (given, {"Authorization": f"Bearer {proof}"}):
            for method, path in (
                ("GET", "/arvados/v1/users/current"), ("GET", f"/arvados/v1/containers/{uuid}"),
                ("POST", f"/arvados/v1/connect/{uuid}/ssh"), ("GET", f"/services/{uuid}-8000/"),
                ("POST", f"/arvados/v1/containers/{uuid}/gateway_tunnel"),
            ):  # fmt: skip
                reply = await site.call(method, path, Upgrade="ssh", **headers)
                assert reply.status == 401, (method, path, reply.text)


@pytest.mark.attack(
    "somebody signs a forwarded call without the key, or uses one for another container, "
    "purpose or time"
)
async def test_claims_are_forged(site: Site) -> None:
    alice, bob = await site.user("alice"), await site.user("bob")
    uuid, other = [(await site.request(token))["container_uuid"] for token in (alice, bob)]
    await site.write(uuid, await site.lock(uuid), state="Running", gateway_address="tunnel")
    user = (await site.admin.list("users", filters=[["username", "=", "alice"]]))[0]["uuid"]
    url, now = f"https://{site.address}/", int(time.time())
    key = forwarding_key(site.secrets.system_root_token)

    def claim(**more: object) -> ForwardingClaim:
        given = {
            "user_uuid": user, "container_uuid": uuid, "purpose": Purpose.SHELL, "audience": url,
            "expires": now + LIFE, **more,
        }  # fmt: skip
        return ForwardingClaim(**given)

    async def shell(said: str) -> int:
        path = f"/arvados/v1/connect/{uuid}/ssh"
        return (
            await site.call("POST", path, Upgrade="ssh", Connection="upgrade", **{HEADER: said})
        ).status

    assert await shell(forwarding_claims.sign(key, claim())) == 503
    for refused in (
        forwarding_claims.sign(b"x" * 32, claim()),
        forwarding_claims.sign(key, claim(container_uuid=other)),
        forwarding_claims.sign(key, claim(purpose=Purpose.PORT)),
        forwarding_claims.sign(key, claim(audience="https://elsewhere:1/")),
        forwarding_claims.sign(key, claim(expires=now - 1)),
        forwarding_claims.sign(key, claim(user_uuid="zzzzz-tpzed-000000000000000")),
        "", ".", "a.b",
    ):  # fmt: skip
        assert await shell(refused) == 401, refused
    port = forwarding_claims.sign(key, claim(purpose=Purpose.PORT))
    nobody = forwarding_claims.sign(key, claim(purpose=Purpose.PORT, user_uuid=""))
    path = f"/services/{uuid}-8000/"
    assert (await site.call("GET", path, **{HEADER: port})).status == 503
    for refused in (nobody, forwarding_claims.sign(key, claim()), "a.b"):
        assert (await site.call("GET", path, **{HEADER: refused})).status == 401


def forwarding_key(root: str) -> bytes:
    """The key that the servers of an installation share."""
    return hashlib.sha256(b"forwarded calls:" + root.encode()).digest()


@pytest.mark.attack(
    "a worker gives the address of another machine or service as that of its gateway"
)
async def test_a_gateway_address_is_the_workers_own(site: Site) -> None:
    uuid = (await site.request(await site.user("alice")))["container_uuid"]
    supervisor = await site.lock(uuid)
    refused = (
        "10.0.0.1:8443", "[::1]:9000", "localhost:9000", "169.254.169.254:8080",
        "[fd00:ec2::254]:8080", "0.0.0.0:9000", "[::]:9000", "2130706433:9000", "0x7f000001:9000",
        "127.1:9000", "[::ffff:10.0.0.1]:9000", "127.0.0.1:22", "127.0.0.1:443", "127.0.0.1:1023",
        "127.0.0.2:9000", "metadata.internal:9000", "x@127.0.0.1:9000", "127.0.0.1:9000/",
        "tunnel  https://127.0.0.1:9000/", "TUNNEL https://127.0.0.1:9000/",
    )  # fmt: skip
    for address in refused:
        for more in ({"state": "Running"}, {}):
            reply = await site.write(uuid, supervisor, gateway_address=address, **more)
            assert reply.status == 422, (address, reply.text)
    # Nor is a client believed that says where it comes from.
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
        sent = {name: "for=10.0.0.1" if name == "Forwarded" else "10.0.0.1"}
        changes = {"state": "Running", "gateway_address": "10.0.0.1:8443"}
        path = f"/arvados/v1/containers/{uuid}"
        reply = await site.call("PUT", path, token=supervisor, json=changes, **sent)
        assert reply.status == 422, (name, reply.text)
    assert (await site.admin.get("containers", uuid))["state"] == "Locked"
    assert (
        await site.write(uuid, supervisor, state="Running", gateway_address="127.0.0.1:9000")
    ).status == 200


@pytest.mark.attack(
    "a worker moves its gateway address along the ports of its network to learn from errors "
    "what listens"
)
async def test_errors_do_not_tell_open_from_closed(site: Site, tmp_path: Path) -> None:
    alice = await site.user("alice")
    uuid = (await site.request(alice))["container_uuid"]
    supervisor = await site.lock(uuid)
    await site.write(uuid, supervisor, state="Running", gateway_address="tunnel")
    said = set()
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    plain = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    api = int(site.address.rpartition(":")[2])
    async with trap(site.directory.certificate, site.directory.key) as (port, _):
        for number in (closed, plain.sockets[0].getsockname()[1], port, api):
            assert (
                await site.write(uuid, supervisor, gateway_address=f"127.0.0.1:{number}")
            ).status == 200
            said.add(await enter(site, uuid, alice))
    plain.close()
    assert len(said) == 1, said


@pytest.mark.attack("somebody who took over the address of a gateway waits for what its users send")
async def test_an_impostor_at_the_address_hears_nothing(site: Site) -> None:
    alice = await site.user("alice")
    uuid = (await site.request(alice))["container_uuid"]
    supervisor = await site.lock(uuid)
    async with trap(site.directory.certificate, site.directory.key) as (port, heard):
        await site.write(uuid, supervisor, state="Running", gateway_address=f"127.0.0.1:{port}")
        await enter(site, uuid, alice)
        said = bytes(heard)
    assert b"GET / HTTP/1.1" in said
    for word in (SECRET, "ssh", "other=1", "8000", alice.rpartition("/")[2]):
        assert word.encode() not in said


@pytest.mark.attack(
    "a user has the server fetch from its own loopback, "
    "its link or the metadata service of its cloud"
)
async def test_git_repositories_are_those_of_the_configuration(site: Site) -> None:
    alice = await site.user("alice")
    for url in (
        "http://127.0.0.1:8000/x.git", "http://169.254.169.254/latest/meta-data",
        "git://localhost/x", "file:///etc", "ssh://git@10.0.0.1/x", "https://example.org/x.git",
    ):  # fmt: skip
        mounts = {
            "/out": {"kind": "tmp", "capacity": 1},
            "/in": {"kind": "git_tree", "git_url": url, "commit": "main", "path": "/"},
        }
        spec = {
            "mounts": mounts, "command": ["true"], "container_image": "x", "output_path": "/out",
            "priority": 1, "state": "Committed",
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
        }  # fmt: skip
        reply = await site.call("POST", "/arvados/v1/container_requests", token=alice, json=spec)
        assert reply.status == 422, reply.text
        assert "not among the repositories" in reply.text, reply.text
        reply = await site.call(
            "POST",
            "/arvados/v1/repositories",
            token=alice,
            json={"name": "alice/x", "fetch_url": url},
        )
        assert reply.status == 403, reply.text
