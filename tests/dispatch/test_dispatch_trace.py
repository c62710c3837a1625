"""The spans of a dispatcher in the trace of a container."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lading.core.errors import Unavailable
from lading.core.values import JsonObject
from lading.dispatch.dispatch_trace import DispatchTrace
from lading.dispatch.fleet import StartRequest
from lading.process.tracing import OFF, current_traceparent, make_tracer

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _request(traceparent: str | None) -> StartRequest:
    made_at = "2026-01-01T00:00:00.000000000Z"
    record: JsonObject = {"traceparent": traceparent, "created_at": made_at}
    known: JsonObject = {"container": record} if traceparent is not None else {}
    return StartRequest(uuid="zzzzz-dz642-000000000000000", worker="w1", token="t", records=known)


def test_wait_lock_and_start_are_spans_of_the_container() -> None:
    exporter = InMemorySpanExporter()
    # 2026-01-01T00:00:10Z
    trace = DispatchTrace(make_tracer(exporter, "dispatcher", is_batched=False))
    with trace.starting(_request(PARENT), began=1767225610.0):
        assert current_traceparent().split("-")[1] == PARENT.split("-")[1]
    found = {one.name: one for one in exporter.get_finished_spans()}
    assert set(found) == {"wait for a dispatcher", "lock", "start supervisor"}
    wait = found["wait for a dispatcher"]
    assert ((wait.end_time or 0) - (wait.start_time or 0)) == 10 * 10**9
    assert {f"{one.parent.span_id:016x}" for one in found.values() if one.parent} == {
        PARENT.split("-")[2]
    }
    assert dict(found["start supervisor"].attributes or {})["worker"] == "w1"


def test_a_start_that_fails_is_a_failed_span() -> None:
    exporter = InMemorySpanExporter()
    trace = DispatchTrace(make_tracer(exporter, "dispatcher", is_batched=False))
    with pytest.raises(Unavailable), trace.starting(_request(PARENT), began=trace.now()):
        raise Unavailable("no process")
    last = exporter.get_finished_spans()[-1]
    assert (last.name, last.status.description) == ("start supervisor", "no process")


@pytest.mark.parametrize("traceparent", ["", "nonsense", None])
def test_containers_outside_of_a_trace_have_no_spans(traceparent: str | None) -> None:
    exporter = InMemorySpanExporter()
    trace = DispatchTrace(make_tracer(exporter, "dispatcher", is_batched=False))
    with trace.starting(_request(traceparent), began=1.0):
        pass
    assert exporter.get_finished_spans() == ()


def test_without_a_collector_the_start_is_all() -> None:
    trace = DispatchTrace(OFF)
    with trace.starting(_request(PARENT), began=trace.now()):
        assert current_traceparent() == ""
