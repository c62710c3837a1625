"""Traces: spans of the work for one call, sent to a collector of OpenTelemetry.

Off unless the configuration names a collector (`Tracing.Endpoint`): then nothing of OpenTelemetry
is imported, and `SpanTracer` makes no spans. The extra `lading[otel]` has what it needs.

A span is known to others by its W3C trace context, a `traceparent`:
`00-<32 hex: trace>-<16 hex: span>-<2 hex: flags>`. It comes with a call in the header of that name,
goes with calls that are made for it (`client.api`), and is stored with the container that a call
made, where dispatcher and supervisor find it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import field

from lading.core.errors import Invalid
from lading.process.telemetry import Within, redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan

Value: TypeAlias = str | int | float | bool
_FORM: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
# The context of the span that the present task works in; "" outside of one.
_CURRENT: Final[ContextVar[str]] = ContextVar("lading_traceparent", default="")
# Seconds for one export; a collector that does not answer must not hold anything up.
_EXPORT: Final = 5.0
_NANO: Final = 1_000_000_000
_logger = logging.getLogger("lading.process.tracing")


class TracingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans go. `endpoint` is a URL of OTLP over HTTP, "" for nowhere; `ratio` the share of
    traces that are sent, 0 to 1; `headers` go with each export, and may hold a secret.
    """

    endpoint: str = ""
    ratio: float = 1.0
    headers: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the headers."""
        return f"TracingSettings(endpoint={self.endpoint!r}, ratio={self.ratio!r})"


def check_traceparent(context: str) -> str:
    """The trace context if it is valid, else "": a context of a stranger is no reason to refuse a
    call.
    """
    return context if _FORM.fullmatch(context) else ""


def current_traceparent() -> str:
    """The trace context of the present task; "" without one."""
    return _CURRENT.get()


def within(traceparent: str) -> Within:
    """A context in which the calls of this task are made for a span."""
    return Within(_CURRENT, traceparent)


class TraceSpan:
    """A span that is not recorded."""

    traceparent = ""

    def set(self, key: str, value: Value) -> None:
        """Add an attribute."""

    def rename(self, name: str) -> None:
        """Give it a name that was not known at its begin."""

    def fail(self, reason: str) -> None:
        """Mark it as failed."""

    def end(self, at: float | None = None) -> None:
        """It is over, now or at a time in Unix seconds."""


NO_SPAN: Final = TraceSpan()
"""The span of a process without a collector."""


class SpanTracer:
    """Makes spans; this one makes none."""

    is_on = False

    def begin(
        self,
        name: str,
        *,
        parent: str = "",
        start: float | None = None,
        is_server: bool = False,
        **attributes: Value,
    ) -> TraceSpan:
        """A span that has begun, now or at `start` in Unix seconds. `parent` is a trace context; ""
        for a new trace.
        """
        del name, parent, start, is_server, attributes
        return NO_SPAN

    @contextmanager
    def span(self, name: str, *, parent: str = "", **attributes: Value) -> Iterator[TraceSpan]:
        """A span around the block, which is also the present one. An exception marks it as
        failed.
        """
        if not self.is_on:
            yield NO_SPAN
            return
        span = self.begin(name, parent=parent or current_traceparent())
        for key, value in attributes.items():
            span.set(key, value)
        try:
            with within(span.traceparent):
                yield span
        except Exception as error:
            span.fail(str(error))
            raise
        finally:
            span.end()

    def close(self) -> None:
        """Send the unsent spans, in a few seconds. Blocks."""


OFF: Final = SpanTracer()
"""The tracer of a process without a collector."""


def open_tracer(settings: TracingSettings, service: str) -> SpanTracer:
    """The tracer of a process; `service` is its part in Lading. Raises Invalid for settings that
    cannot be used.
    """
    if not settings.endpoint:
        return OFF
    if not settings.endpoint.startswith(("http://", "https://")):
        raise Invalid(
            f"configuration: Tracing.Endpoint: {settings.endpoint!r}; it must be a URL, such as "
            "http://localhost:4318/v1/traces"
        )
    if not 0 <= settings.ratio <= 1:
        raise Invalid(f"configuration: Tracing.SampleRatio: {settings.ratio}; it must be 0 to 1")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise Invalid(
            f"configuration: Tracing.Endpoint: {error.name} is not installed; "
            "install the extra otel of lading"
        ) from error
    exporter = OTLPSpanExporter(
        endpoint=settings.endpoint, headers=settings.headers, timeout=_EXPORT
    )
    return make_tracer(exporter, service, ratio=settings.ratio)


def make_tracer(
    exporter: SpanExporter, service: str, *, ratio: float = 1.0, is_batched: bool = True
) -> SpanTracer:
    """A tracer that sends to an exporter of OpenTelemetry, in batches by a thread, or at once."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

    # The share is taken of the ids of traces, so that all parts decide alike. A caller may ask for
    # no trace; a trace that it asks for counts as any other, or strangers could flood a collector.
    share = TraceIdRatioBased(ratio)
    sampler = ParentBased(
        root=share, remote_parent_sampled=share, remote_parent_not_sampled=ALWAYS_OFF
    )
    resource = Resource.create({"service.name": f"lading-{service}", "service.namespace": "lading"})
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor if is_batched else SimpleSpanProcessor
    provider.add_span_processor(processor(exporter))
    # A collector that is away is no fault of Lading's: one line of the library each is enough.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return _OtelTracer(provider)


class _OtelSpan(TraceSpan):
    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = (
            f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        )

    def set(self, key: str, value: Value) -> None:
        self._span.set_attribute(key, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, redact(reason)))

    def end(self, at: float | None = None) -> None:
        self._span.end(None if at is None else int(at * _NANO))


class _OtelTracer(SpanTracer):
    is_on = True

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lading")

    def begin(
        self,
        name: str,
        *,
        parent: str = "",
        start: float | None = None,
        is_server: bool = False,
        **attributes: Value,
    ) -> TraceSpan:
        from opentelemetry.context import Context
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            SpanKind,
            TraceFlags,
            set_span_in_context,
        )

        context = Context()
        if match := _FORM.fullmatch(parent):
            trace, span, flags = (int(digits, 16) for digits in match.groups())
            remote = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags & 1))
            context = set_span_in_context(NonRecordingSpan(remote), context)
        return _OtelSpan(
            self._tracer.start_span(
                name,
                context=context,
                kind=SpanKind.SERVER if is_server else SpanKind.INTERNAL,
                attributes=attributes,
                start_time=None if start is None else int(start * _NANO),
            )
        )

    def close(self) -> None:
        self._provider.shutdown()
