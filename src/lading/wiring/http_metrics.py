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
from collections.abc import Awaitable, Callable, MutableMapping
from enum import IntEnum
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from lading.api.http import ROUTE
from lading.core.errors import Invalid
from lading.core.ids import make_request_id
from lading.metrics import REQUEST_SECONDS
from lading.telemetry import event, in_request
from lading.tracing import NO_SPAN, OFF, SpanTracer, TraceSpan, check_traceparent, within

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


def read_logged_calls(text: str) -> LoggedCalls:
    """The calls that the configuration wants logged. Raises Invalid."""
    names = [one.name.lower() for one in LoggedCalls]
    if text not in names:
        raise Invalid(
            f"configuration: SystemLogs.LogRequests: {text!r}; it must be one of {', '.join(names)}"
        )
    return LoggedCalls[text.upper()]


class HttpMetrics:
    """Measures the applications of one server process, logs calls with at least the status
    `logged`, and makes a span of each.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        logged: LoggedCalls = LoggedCalls.NONE,
        tracer: SpanTracer = OFF,
    ) -> None:
        self._tracer = tracer
        self._logged = logged
        # The library's look-up of a series takes longer than the rest of a count.
        self._series: dict[tuple[str, str, str, int], tuple[Histogram, Counter]] = {}
        self._seconds = Histogram(
            "lading_http_request_seconds",
            "From the head of a call to that of its response, by service, route and method.",
            ["service", "route", "method"],
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self._responses = Counter(
            "lading_http_responses",
            "Responses by service, route, method and status; 0: the client left before.",
            ["service", "route", "method", "status"],
            registry=registry,
        )

    def measured(self, service: str, app: App) -> App:
        """The application with its calls counted under the name of its service."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, status = time.perf_counter(), 0
            # The API takes the id of the client; the other services have none of their own.
            request_id = _request_id(scope)
            span = self._begin(service, scope, request_id)

            async def answer(message: MutableMapping[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start" and not status:
                    status = message["status"]
                    self._note(service, scope, span, status, time.perf_counter() - began)
                await send(message)

            with in_request(request_id), within(span.traceparent):
                try:
                    await app(scope, receive, answer)
                finally:
                    if not status:
                        self._note(service, scope, span, status, time.perf_counter() - began)
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
        key = service, route, method, status
        if key not in self._series:
            self._series[key] = (
                self._seconds.labels(service, route, method),
                self._responses.labels(service, route, method, str(status)),
            )
        series_seconds, responses = self._series[key]
        series_seconds.observe(seconds)
        responses.inc()
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


def _header(scope: Scope, wanted: bytes) -> str:
    """The first header of this name; "" without one."""
    for name, value in scope.get("headers", ()):
        if name == wanted:
            return str(value.decode("latin-1"))
    return ""
