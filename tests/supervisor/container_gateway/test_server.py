"""Who is let into a gateway: the server that knows this container's key for this certificate, and
nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.containers import sessions
from lading.core.containers.sessions import AUTHORIZATION_RESPONSE
from lading.net.certificates import is_key_of
from lading.supervisor.container_gateway.server import make_identity
from tests.supervisor.container_gateway.entering import (
    CONTAINER,
    OTHER,
    ROOT,
    Gateway,
    gateway_of,
    stub_running,
)

SEED = b"s" * 64


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with stub_running(tmp_path) as engine, gateway_of(engine) as made:
        yield made


async def test_the_server_is_let_in_and_is_proven_to(gateway: Gateway) -> None:
    pipe, answer, proof = await gateway.ask()
    assert (answer.status, answer.get("upgrade")) == (101, "ssh")
    assert answer.get(AUTHORIZATION_RESPONSE) == sessions.response_proof(
        gateway.key, proof.decode()
    )
    assert (await pipe.reader.readuntil(b"\n")).startswith(b"SSH-2.0")
    await pipe.close()
    assert gateway.said[0] == "a user has entered the container"


async def refused(gateway: Gateway, **how: str) -> int:
    pipe, answer, _ = await gateway.ask(**how)  # type: ignore[arg-type]
    assert answer.get(AUTHORIZATION_RESPONSE) == ""
    await pipe.close()
    assert gateway.said == []
    return answer.status


async def test_a_wrong_secret_is_refused(gateway: Gateway) -> None:
    assert (
        await refused(gateway, key=sessions.container_key("another root token", CONTAINER)) == 401
    )
    assert await refused(gateway, key=sessions.container_key(ROOT, OTHER)) == 401
    assert await refused(gateway, proof="") == 401


async def test_another_container_is_not_here(gateway: Gateway) -> None:
    assert await refused(gateway, uuid=OTHER) == 502


async def test_a_replayed_handshake_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    """What was said to one life of a gateway opens no other, not even of the same container."""
    pipe, _, proof = await gateway.ask()
    await pipe.close()
    async with gateway_of(gateway.engine) as later:
        assert await refused(later, proof=proof.decode()) == 401


async def test_somebody_in_the_middle_with_another_certificate_learns_nothing(
    gateway: Gateway,
) -> None:
    """The proof for the certificate that an attacker shows does not open the gateway behind."""
    _, shown = make_identity(CONTAINER, SEED)
    assert await refused(gateway, proof=sessions.request_proof(gateway.key, shown)) == 401


async def test_what_it_does_not_serve(gateway: Gateway) -> None:
    for start, more, status in (
        ("GET /ssh", None, 404), ("POST /other", None, 404), ("POST /ssh", {}, 404),
        ("POST /ssh", {"Upgrade": "ssh", "Content-Length": "9999999"}, 413),
        ("GET /", {"X-Arvados-Container-Target-Port": "99999"}, 400),
        ("GET /", {"X-Arvados-Container-Target-Port": "1"}, 422),
    ):  # fmt: skip
        pipe, answer, _ = await gateway.ask(start, more=more)
        assert answer.status == status, (start, more)
        await pipe.close()


async def test_nonsense_is_answered_as_such(gateway: Gateway) -> None:
    pipe, _ = await gateway.connect()
    pipe.writer.write(b"nonsense\r\n\r\n")
    assert (await pipe.reader.read()).startswith(b"HTTP/1.1 400 ")
    await pipe.close()


async def test_closing_ends_sessions(tmp_path: Path) -> None:
    async with stub_running(tmp_path) as engine:
        async with gateway_of(engine) as gateway:
            pipe, _, _ = await gateway.ask()
        await asyncio.wait_for(pipe.reader.read(), 20)
        await pipe.close()
    assert gateway.said[-1] == "a session in the container has ended"


def test_an_identity_is_a_new_certificate_for_the_key_of_the_container() -> None:
    made = [make_identity(CONTAINER, SEED)[1] for _ in range(2)]
    assert all(is_key_of(one, SEED) for one in made)
    assert made[0] != made[1]


async def test_strangers_who_say_nothing_are_no_callers(tmp_path: Path) -> None:
    async with stub_running(tmp_path) as engine, gateway_of(engine) as gateway:
        strangers = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(20)]
        pipe, answer, _ = await gateway.ask()
        assert answer.status == 101
        assert (await pipe.reader.readline()).startswith(b"SSH-2.0")
        await pipe.close()
        for _, writer in strangers:
            writer.close()
