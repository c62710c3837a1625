"""Counts, times, log lines and spans of the HTTP calls of a server, in front of its parts.

A route is the name that the API gives it (`api.routes`). The other services have one route each;
their paths name files, blocks and records, which are no labels. A time ends with the head of the
response: streams of events and large files go on after it.
"""

from __future__ import annotations

import logging
import os
import re
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from lading.api.http import ROUTE
from lading.core.errors import Invalid
from lading.core.ids import make_request_id
from lading.process.metrics import REQUEST_SECONDS
from lading.process.telemetry import event, in_request
from lading.process.tracing import NO_SPAN, OFF, SpanTracer, TraceSpan, check_traceparent, within

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
# A client may send any word as its method.
_METHODS: Final = frozenset(
    (
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PROPPATCH",
        "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "TOUCH",
    )
)  # fmt: skip
# An id of a client becomes part of log lines and of calls of the API.
_GIVEN: Final = re.compile(r"[!-~]{1,256}")
_OTHER: Final = "other"
_UNKNOWN: Final = "unknown"
_logger = logging.getLogger("lading.calls")


class LoggedCalls(IntEnum):
    """Lowest status of calls that get a log line."""

    ALL = 0
    REFUSED = 400
    FAULTS = 500
    NONE = 1000


def read_logged_calls(setting: str) -> LoggedCalls:
    """The calls that the configuration wants logged. Raises Invalid."""
    names = [member.name.lower() for member in LoggedCalls]
    if setting not in names:
        raise Invalid(
            f"configuration: SystemLogs.LogRequests: {setting!r};"
            f" it must be one of {', '.join(names)}"
        )
    return LoggedCalls[setting.upper()]


@dataclass(slots=True)
class _Series:
    """Calls of one service, route, method and status: their number in each bucket, the last one
    without a bound, and all their seconds.
    """

    buckets: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_SECONDS) + 1))
    total: float = 0.0


class HttpMetrics(Collector):
    """Measures the applications of one server process, logs calls with at least the status
    `logged`, and makes a span of each.

    Calls are counted here and given to the library at a scrape: to count each by its classes takes
    five times as long.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        logged: LoggedCalls = LoggedCalls.NONE,
        tracer: SpanTracer = OFF,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._tracer = tracer
        self._logged = logged
        self._series: defaultdict[tuple[str, str, str, int], _Series] = defaultdict(_Series)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The metrics, for a scrape."""
        seconds = HistogramMetricFamily(
            "lading_http_request_seconds",
            "From the head of a call to that of its response, by service, route and method.",
            labels=("service", "route", "method"),
        )
        responses = CounterMetricFamily(
            "lading_http_responses",
            "Responses by service, route, method and status; 0: the client left before.",
            labels=("service", "route", "method", "status"),
        )
        by_route: defaultdict[tuple[str, str, str], _Series] = defaultdict(_Series)
        for (service, route, method, status), series in self._series.items():
            responses.add_metric((service, route, method, str(status)), sum(series.buckets))
            joined = by_route[service, route, method]
            joined.buckets = [
                sum(pair) for pair in zip(joined.buckets, series.buckets, strict=True)
            ]
            joined.total += series.total
        for labels, series in by_route.items():
            # Each bucket of Prometheus has those of the smaller ones too.
            bounds = [*(str(bound) for bound in REQUEST_SECONDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(series.buckets), strict=True))
            seconds.add_metric(labels, buckets, series.total)
        yield from (seconds, responses)

    def measured(self, service: str, app: App) -> App:
        """The application with its calls counted under the name of its service."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, status = self._clock(), 0
            # The API takes the id of the client; the other services have none of their own.
            request_id = _request_id(scope)
            span = self._begin(service, scope, request_id)

            async def answer(message: MutableMapping[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start" and not status:
                    status = message["status"]
                    self._note(service, scope, span, status, self._clock() - began)
                await send(message)

            with in_request(request_id), within(span.traceparent):
                try:
                    await app(scope, receive, answer)
                finally:
                    if not status:
                        self._note(service, scope, span, status, self._clock() - began)
                    span.end()

        return call

    def _begin(self, service: str, scope: Scope, request_id: str) -> TraceSpan:
        if not self._tracer.is_on:
            return NO_SPAN
        parent = check_traceparent(_header(scope, b"traceparent"))
        span = self._tracer.begin(service, parent=parent, is_server=True)
        span.set("lading.request_id", request_id)
        return span

    def _note(
        self, service: str, scope: Scope, span: TraceSpan, status: int, seconds: float
    ) -> None:
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        route = scope.get(ROUTE) or (_UNKNOWN if service == "api" else service)
        series = self._series[service, route, method, status]
        series.buckets[bisect_left(REQUEST_SECONDS, seconds)] += 1
        series.total += seconds
        if self._tracer.is_on:
            span.rename(f"{method} {route}")
            span.set("http.request.method", method)
            span.set("http.route", route)
            span.set("http.response.status_code", status)
            if status >= LoggedCalls.FAULTS:
                span.fail(f"status {status}")
        if status >= self._logged:
            event(
                _logger, "call answered", service=service, route=route, method=method,
                status=status, seconds=round(seconds, 6),
            )  # fmt: skip


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given if _GIVEN.fullmatch(given) else make_request_id(os.urandom(20))


def _header(scope: Scope, header_name: bytes) -> str:
    """The first header of this name; "" without one."""
    for name, value in scope.get("headers", ()):
        if name == header_name:
            return str(value.decode("latin-1"))
    return ""
