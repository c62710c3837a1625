"""Counts and times of HTTP calls by service and route."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lading.api.container_access.port_addresses import PortAddresses
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world
from lading.wiring.http_metrics import HttpMetrics, Receive, Scope, Send
from lading.wiring.server import combine


def counted(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return {
        tuple(one.labels[name] for name in ("service", "route", "method", "status")): one.value
        for family in registry.collect()
        if family.name == "lading_http_responses"
        for one in family.samples
        if one.name.endswith("_total")
    }


async def blocks(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_calls_are_counted_by_service_and_route(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await _check_calls(it)


async def _check_calls(it: World) -> None:
    registry = CollectorRegistry()
    app = combine(it.app, blocks, blocks, PortAddresses(), metrics=HttpMetrics(registry))
    transport = AsgiTransport(app)
    sent = {"Authorization": f"Bearer {it.admin}"}
    uuid = (await it.submit("true"))["uuid"]
    for path in (
        "/arvados/v1/users/current",
        f"/arvados/v1/container_requests/{uuid}",
        "/arvados/v1/container_requests/zzzzz-xvhdp-000000000000000",
        "/arvados/v1/nonsense",
        "/d41d8cd98f00b204e9800998ecf8427e+0",
        "/status.json",
    ):
        await transport.request("GET", path, headers=sent)
    await transport.request("BREW", "/arvados/v1/users", headers=sent)
    assert counted(registry) == {
        ("api", "users.current", "GET", "200"): 1,
        ("api", "container_requests.get", "GET", "200"): 1,
        ("api", "container_requests.get", "GET", "404"): 1,
        ("api", "unknown", "GET", "404"): 1,
        ("blocks", "blocks", "GET", "404"): 1,
        ("api", "/status.json", "GET", "200"): 1,
        ("api", "unknown", "other", "405"): 1,
    }
    labels = {"service": "api", "route": "users.current", "method": "GET"}
    assert registry.get_sample_value("lading_http_request_seconds_count", labels) == 1


async def test_a_client_that_leaves_is_counted_once() -> None:
    registry, begun = CollectorRegistry(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def nothing() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def drop(message: MutableMapping[str, Any]) -> None:
        del message

    app = HttpMetrics(registry).measured("files", slow)
    scope = {"type": "http", "method": "GET", "path": "/"}
    task = asyncio.ensure_future(app(scope, nothing, drop))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counted(registry) == {("files", "files", "GET", "0"): 1}


async def test_websockets_pass_uncounted() -> None:
    registry, seen = CollectorRegistry(), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def unused(*_: object) -> Any:
        raise AssertionError

    await HttpMetrics(registry).measured("api", app)({"type": "websocket"}, unused, unused)
    assert (seen, counted(registry)) == (["websocket"], {})
