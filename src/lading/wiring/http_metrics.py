"""Counts and times of the HTTP calls of a server: by service and route, in front of its parts.

A route is the name that the API gives it (`api.routes`). The other services have one route each;
their paths name files, blocks and records, which are no labels. A time ends with the head of the
response: streams of events and large files go on after it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from lading.api.http import ROUTE
from lading.metrics import REQUEST_SECONDS

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
_OTHER: Final = "other"
_UNKNOWN: Final = "unknown"


class HttpMetrics:
    """Measures the applications of one server process."""

    def __init__(self, registry: CollectorRegistry) -> None:
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

            async def answer(message: MutableMapping[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start" and not status:
                    status = message["status"]
                    self._note(service, scope, status, time.perf_counter() - began)
                await send(message)

            try:
                await app(scope, receive, answer)
            finally:
                if not status:
                    self._note(service, scope, status, time.perf_counter() - began)

        return call

    def _note(self, service: str, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        route = scope.get(ROUTE) or (_UNKNOWN if service == "api" else service)
        self._seconds.labels(service, route, method).observe(seconds)
        self._responses.labels(service, route, method, str(status)).inc()
