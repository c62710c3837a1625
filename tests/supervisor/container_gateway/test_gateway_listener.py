"""A door costs a socket until somebody knocks."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.core.containers import sessions
from lading.supervisor.container_gateway import gateway_listener, outbound
from lading.supervisor.container_gateway.gateway_listener import GatewayListener
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.engine import StubEngine
from lading.testing.supervising import FakeServer
from tests.supervisor.container_gateway.entering import CONTAINER, ROOT, Gateway, stub_running

KEY = sessions.container_key(ROOT, CONTAINER)


def make_listener(
    engine: StubEngine, said: list[str], *, key: str = KEY, **more: Any
) -> GatewayListener:
    told = SupervisorConfig(
        container_uuid=CONTAINER,
        supervisor_token="v2/a/b",
        run_directory="/r",
        cache_directory="/c",
        **more,
    )
    session = SupervisorSession(told, AsgiTransport(FakeServer()))
    session.record = {"gateway_auth_secret": key}
    return GatewayListener(told, session, engine, said.append)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[StubEngine]:
    async with stub_running(tmp_path) as running:
        yield running


async def test_it_opens_when_somebody_knocks(engine: StubEngine) -> None:
    listener = make_listener(engine, [], api_socket="/s")
    address = listener.open()
    host, port = sessions.parse_gateway(address)
    assert host == "127.0.0.1"
    for _ in range(2):
        pipe, answer, _ = await Gateway(None, port, engine).ask()  # type: ignore[arg-type]
        assert answer.status == 101
        await pipe.close()
    await listener.close()
    await listener.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_one_that_nobody_used_is_closed(engine: StubEngine) -> None:
    for more in ({"api_socket": "/s"}, {"api_url": "https://127.0.0.1:1"}):
        listener = make_listener(engine, [], **more)
        await listener.find_address()
        assert listener.is_tunnelled is ("api_url" in more)
        assert listener.open()
        assert listener.open() == ""
        await listener.close()


async def test_where_it_listens(engine: StubEngine) -> None:
    for gateway, key, shown in (
        ("none", KEY, ""), ("", "", ""), ("tunnel", KEY, "tunnel"),
        ("192.0.2.1:0", KEY, "192.0.2.1:"), ("[2001:db8::1]:0", KEY, "[2001:db8::1]:"),
    ):  # fmt: skip
        said: list[str] = []
        listener = make_listener(engine, said, key=key, api_socket="/s", gateway=gateway)
        address = listener.open()
        assert address.startswith(shown) if shown else address == ""
        assert said == []
        await listener.close()


async def test_direct_is_the_address_from_which_its_calls_come(engine: StubEngine) -> None:
    said: list[str] = []
    far: dict[str, Any] = {"api_url": "https://127.0.0.1:1", "tunnel_delay": 60.0}
    listener = make_listener(engine, said, gateway="direct", **far)
    await listener.find_address()
    assert listener.open().startswith("127.0.0.1:")
    # The server sees another address.
    assert await listener.fall_back()
    assert listener.is_tunnelled
    assert not await listener.fall_back()
    await listener.close()
    for more in ({"api_url": "https://[::1%nowhere]:1"}, {"api_socket": "/s"}):
        listener = make_listener(engine, said, gateway="direct", **more)
        await listener.find_address()
        assert listener.is_tunnelled
    fixed = make_listener(engine, said, gateway="127.0.0.1:0", **far)
    assert not await fixed.fall_back()
    assert said == []


async def test_without_a_configured_address_the_own_one_is_offered(
    engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_listener, "own_address", lambda config: "192.0.2.1")
    far: dict[str, Any] = {"api_url": "https://192.0.2.2:1", "tunnel_delay": 60.0}
    listener = make_listener(engine, [], **far)
    await listener.find_address()
    assert sessions.offered(listener.open()).startswith("192.0.2.1:")
    # The server did not reach it.
    assert await listener.fall_back()
    assert listener.is_tunnelled
    await listener.close()
    # The loopback of this machine is not that of the server.
    monkeypatch.setattr(gateway_listener, "own_address", lambda config: "127.0.0.1")
    listener = make_listener(engine, [], **far)
    await listener.find_address()
    assert listener.open() == "tunnel"
    await listener.close()


async def test_an_address_that_cannot_be_had_is_said_and_no_more(engine: StubEngine) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = make_listener(
            engine, said, api_socket="/s", gateway=f"127.0.0.1:{taken.getsockname()[1]}"
        )
        assert listener.open() == ""
    assert "nobody can enter this container" in said[0]
    await listener.close()


async def test_what_breaks_it_is_said(engine: StubEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(*_: Any) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(outbound, "keep_tunnel", break_down)
    said: list[str] = []
    listener = make_listener(engine, said, api_url="https://x:1", tunnel_delay=0.0)
    assert listener.open() == "tunnel"
    async with asyncio.timeout(180):
        while not said:
            await asyncio.sleep(0)
    assert said == ["nobody can enter this container any more: RuntimeError('out of ideas')"]
    await listener.close()


def test_nothing_is_loaded_before() -> None:
    heavy = "{'asyncssh', 'cryptography.x509', 'lading.supervisor.container_gateway.server'}"
    loaded = "lading.supervisor.lifecycle.driver, lading.supervisor.process.worker"
    script = f"import sys, {loaded}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
