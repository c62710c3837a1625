"""Counts and times of HTTP calls by service and route."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from lading.api.container_access.port_addresses import PortAddresses
from lading.client.api import ApiClient
from lading.core.errors import Invalid, NotFound
from lading.process import telemetry
from lading.process.tracing import make_tracer
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world
from lading.wiring.http_metrics import (
    HttpMetrics,
    LoggedCalls,
    Receive,
    Scope,
    Send,
    read_logged_calls,
)
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


async def test_times_are_counted_in_buckets() -> None:
    registry, seconds = CollectorRegistry(), (0.0005, 0.001, 0.25, 0.3, 60.0)
    moments = iter([moment for one in seconds for moment in (0.0, one)])
    metrics = HttpMetrics(registry, clock=lambda: next(moments))
    transport = AsgiTransport(metrics.measured("files", blocks))
    for _ in seconds:
        await transport.request("GET", "/x", headers={})
    labels = {"service": "files", "route": "files", "method": "GET"}
    value = registry.get_sample_value
    # As in Prometheus: a bound belongs to its bucket, and each has those of the smaller ones.
    for bound, count in (
        ("0.001", 2),
        ("0.1", 2),
        ("0.25", 3),
        ("0.5", 4),
        ("10.0", 4),
        ("+Inf", 5),
    ):
        found = value("lading_http_request_seconds_bucket", {**labels, "le": bound})
        assert (bound, found) == (bound, count)
    assert value("lading_http_request_seconds_count", labels) == 5
    assert value("lading_http_request_seconds_sum", labels) == pytest.approx(60.5515)
    assert counted(registry)["files", "files", "GET", "404"] == 5


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


async def test_calls_are_logged_with_their_request_id() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        telemetry.configure(stream=stream, format=telemetry.LogFormat.JSON)
        metrics = HttpMetrics(CollectorRegistry(), LoggedCalls.REFUSED)
        transport = AsgiTransport(metrics.measured("blocks", blocks))
        for sent in ("req-mine", "bad\nid", ""):
            await transport.request("GET", "/x", headers={"X-Request-Id": sent})
        quiet = AsgiTransport(HttpMetrics(CollectorRegistry()).measured("blocks", blocks))
        await quiet.request("GET", "/x", headers={})
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["message"], line["service"], line["status"]) for line in lines] == [
        ("call answered", "blocks", 404)
    ] * 3
    assert lines[0]["request_id"] == "req-mine"
    assert all(line["request_id"].startswith("req-") for line in lines)


async def test_a_call_is_a_span_and_its_container_keeps_the_trace(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    tracer = make_tracer(exporter, "server", is_batched=False)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with world(tmp_path) as it:
        metrics = HttpMetrics(CollectorRegistry(), tracer=tracer)
        app = combine(it.app, blocks, blocks, PortAddresses(), metrics=metrics)
        client = ApiClient(AsgiTransport(app), it.admin)
        client.traceparent = parent
        spec = {**await it.spec("true"), "state": "Committed", "priority": 1}
        made = await client.create("container_requests", spec)
        with suppress(NotFound):
            await client.get("container_requests", "zzzzz-xvhdp-000000000000000")
        container = await client.get("containers", made["container_uuid"])
    created, missed, _ = exporter.get_finished_spans()
    assert created.name == "POST container_requests.create"
    assert created.context is not None
    assert created.parent is not None
    assert f"{created.parent.span_id:016x}" == parent.split("-")[2]
    attributes = dict(created.attributes or {})
    assert str(attributes.pop("lading.request_id")).startswith("req-")
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "container_requests.create",
        "http.response.status_code": 200,
    }
    # A refusal is the caller's fault, and no failed span.
    assert missed.status.is_unset
    trace, span = f"{created.context.trace_id:032x}", f"{created.context.span_id:016x}"
    assert container["traceparent"] == f"00-{trace}-{span}-01"


def test_the_configuration_names_the_calls() -> None:
    assert read_logged_calls("faults") is LoggedCalls.FAULTS
    with pytest.raises(Invalid, match="'some'; it must be one of all, refused, faults, none"):
        read_logged_calls("some")


async def test_websockets_pass_uncounted() -> None:
    registry, seen = CollectorRegistry(), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def unused(*_: object) -> Any:
        raise AssertionError

    await HttpMetrics(registry).measured("api", app)({"type": "websocket"}, unused, unused)
    assert (seen, counted(registry)) == (["websocket"], {})
