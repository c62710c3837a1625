"""Spans: none without a collector, and with one those of one trace."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lading.core.errors import Invalid
from lading.process import tracing
from lading.process.tracing import OFF, SpanTracer, TracingSettings, make_tracer, open_tracer

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
TOKEN = "v2/zzzzz-gj3su-0123456789abcde/" + "s" * 50


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> SpanTracer:
    return make_tracer(exporter, "test", is_batched=False)


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {one.name: one for one in exporter.get_finished_spans()}


def test_without_a_collector_nothing_is_imported_or_made() -> None:
    code = (
        "import sys, lading.wiring.server, lading.wiring.dispatcher, lading.client.site,"
        " lading.supervisor.process.forkserver;"
        " print([one for one in sys.modules if one.startswith(('opentelemetry', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
    assert open_tracer(TracingSettings(), "server") is OFF
    with OFF.span("work", parent=PARENT, key=1) as span:
        span.set("key", 2)
        span.rename("other")
        span.fail("it failed")
        assert (span.traceparent, tracing.current_traceparent()) == ("", "")
    OFF.close()


def test_spans_of_one_trace(exporter: InMemorySpanExporter, tracer: SpanTracer) -> None:
    with tracer.span("outer", parent=PARENT, container="c") as outer:
        assert tracing.current_traceparent() == outer.traceparent
        with tracer.span("inner"):
            pass
    assert tracing.current_traceparent() == ""
    found = spans(exporter)
    assert {f"{one.context.trace_id:032x}" for one in found.values() if one.context} == {TRACE}
    assert found["outer"].parent is not None
    assert f"{found['outer'].parent.span_id:016x}" == "b7ad6b7169203331"
    assert found["inner"].parent is not None
    assert outer.traceparent.split("-")[2] == f"{found['inner'].parent.span_id:016x}"
    assert dict(found["outer"].attributes or {}) == {"container": "c"}
    assert found["outer"].resource.attributes["service.name"] == "lading-test"


def test_spans_of_the_past(exporter: InMemorySpanExporter, tracer: SpanTracer) -> None:
    tracer.begin("waited", parent=PARENT, start=1000.0).end(1002.5)
    span = spans(exporter)["waited"]
    assert (span.start_time, span.end_time) == (1000 * 10**9, 1002500000000)


def test_a_failure_is_shown_without_tokens(
    exporter: InMemorySpanExporter, tracer: SpanTracer
) -> None:
    with pytest.raises(ValueError, match="v2/"), tracer.span("work"):
        raise ValueError(f"with {TOKEN}")
    status = spans(exporter)["work"].status
    assert not status.is_ok
    assert status.description == "with v2/zzzzz-gj3su-0123456789abcde/***"


@pytest.mark.parametrize(
    "text",
    [
        "", "x", PARENT.upper(), f"{PARENT}-more", f"01{PARENT[2:]}", f"{PARENT}\n",
        f"00-{'0' * 32}-{'1' * 16}-01", f"00-{TRACE}-{'0' * 16}-01",
    ],
)  # fmt: skip
def test_what_is_no_trace_context(
    text: str, exporter: InMemorySpanExporter, tracer: SpanTracer
) -> None:
    assert tracing.check_traceparent(text) == ""
    tracer.begin("work", parent=text).end()
    assert spans(exporter)["work"].parent is None


def test_a_caller_may_ask_for_no_trace(exporter: InMemorySpanExporter, tracer: SpanTracer) -> None:
    span = tracer.begin("work", parent=f"{PARENT[:-2]}00")
    assert span.traceparent.endswith("-00")
    span.end()
    assert spans(exporter) == {}


def test_strangers_do_not_change_the_share(exporter: InMemorySpanExporter) -> None:
    tracer = make_tracer(exporter, "test", ratio=0.0, is_batched=False)
    tracer.begin("asked", parent=PARENT).end()
    tracer.begin("begun here").end()
    assert spans(exporter) == {}


def test_settings_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match=r"Tracing\.Endpoint: 'collector:4318'; it must be a URL"):
        open_tracer(TracingSettings(endpoint="collector:4318"), "server")
    with pytest.raises(Invalid, match=r"Tracing\.SampleRatio: 2"):
        open_tracer(TracingSettings(endpoint="http://h/v1/traces", ratio=2), "server")
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Invalid, match=r"is not installed; install the extra otel"):
        open_tracer(TracingSettings(endpoint="http://h/v1/traces"), "server")


def test_headers_of_exports_are_not_shown() -> None:
    assert "hush" not in repr(TracingSettings(headers={"Authorization": "hush"}))


def test_headers_are_in_no_message() -> None:
    assert "hush" not in repr(TracingSettings(endpoint="http://c", headers={"k": "hush"}))
