"""The spans of a dispatcher in the trace of a container: wait, lock, start of its supervisor.

The record of the container, which comes with the lock, names the trace; so the first two are added
when they are over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lading.core.quantities import parse_time
from lading.dispatch.fleet import StartRequest
from lading.process.tracing import SpanTracer, check_traceparent


class DispatchTrace:
    """Adds spans to the traces of containers; `clock` returns Unix seconds."""

    def __init__(self, tracer: SpanTracer, *, clock: Callable[[], float] = time.time) -> None:
        self._tracer = tracer
        self._clock = clock

    def now(self) -> float:
        """The time, in Unix seconds."""
        return self._clock()

    @contextmanager
    def starting(self, request: StartRequest, *, began: float) -> Iterator[None]:
        """A span around the start of a supervisor, after those of the wait and of the lock, which
        began then. Containers outside of any trace get none.
        """
        record = request.records.get("container")
        container = record if isinstance(record, dict) else {}
        parent = check_traceparent(str(container.get("traceparent") or ""))
        if not parent or not self._tracer.is_on:
            yield
            return
        begin, uuid = self._tracer.begin, request.uuid
        created = parse_time(str(container["created_at"])).timestamp()
        begin(
            "wait for a dispatcher", parent=parent, start=min(created, began), container=uuid
        ).end(began)
        begin("lock", parent=parent, start=began, container=uuid).end()
        with self._tracer.span(
            "start supervisor", parent=parent, container=uuid, worker=request.worker
        ):
            yield
