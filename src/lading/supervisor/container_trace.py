"""The trace of one container in its supervisor: a span for all of it, and one for each step.

The steps are those of the run journal. The trace is that of the call that made the container; the
record names it, so the first step, which reads the record, is added when it is over.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from lading.core.errors import Invalid
from lading.process.tracing import (
    OFF,
    SpanTracer,
    TraceSpan,
    TracingSettings,
    check_traceparent,
    open_tracer,
)
from lading.supervisor.journal import StepMark

_SERVICE: Final = "supervisor"
_RESULTS: Final = "save results"
_LAST_STEP: Final = "command"
_logger = logging.getLogger("lading.supervisor")


def tracer_of(settings: TracingSettings) -> SpanTracer:
    """The tracer of this process. Without the programs for it a container runs untraced."""
    return _open(settings.endpoint, settings.ratio, tuple(sorted(settings.headers.items())))


def close_tracer(settings: TracingSettings) -> None:
    """Send what this process has not sent yet; takes a few seconds at most, and blocks."""
    tracer_of(settings).close()
    _open.cache_clear()


# A process serves one container after the other: OpenTelemetry is imported for the first of them.
@lru_cache(1)
def _open(endpoint: str, ratio: float, headers: tuple[tuple[str, str], ...]) -> SpanTracer:
    settings = TracingSettings(endpoint=endpoint, ratio=ratio, headers=dict(headers))
    try:
        return open_tracer(settings, _SERVICE)
    except Invalid as error:
        _logger.warning("no traces: %s", error.message)
        return OFF


class ContainerTrace:
    """The spans of one container; `clock` returns Unix seconds. Observes the run journal."""

    def __init__(self, tracer: SpanTracer, *, clock: Callable[[], float] = time.time) -> None:
        self._tracer = tracer
        self._clock = clock
        self._began = clock() if tracer.is_on else 0.0
        self._early: dict[str, float] = {}
        self._open: dict[str, TraceSpan] = {}
        self._all: TraceSpan | None = None

    def join(self, traceparent: object, container_uuid: str) -> str:
        """Make the spans a part of a trace; the context for calls of the API, "" without one."""
        parent = check_traceparent(traceparent) if isinstance(traceparent, str) else ""
        if not parent or not self._tracer.is_on or self._all is not None:
            return ""
        self._all = self._tracer.begin(
            "supervise", parent=parent, start=self._began, container=container_uuid
        )
        for step, at in self._early.items():
            self._begin(step, at)
        self._early.clear()
        return self._all.traceparent

    def mark(self, step: str, mark: StepMark) -> None:
        """A line of the journal was written."""
        if not self._tracer.is_on:
            return
        if mark is StepMark.BEGUN:
            self._begin(step, self._clock())
        elif mark is StepMark.DONE:
            self._end(step)
            if step == _LAST_STEP:
                self._begin(_RESULTS, self._clock())

    @contextlib.contextmanager
    def doing(self, name: str) -> Iterator[None]:
        """A span around a part of a step."""
        self._begin(name, self._clock())
        try:
            yield
        finally:
            self._end(name)

    def close(self) -> None:
        """End every span. Idempotent."""
        for step in tuple(self._open):
            self._end(step)
        if self._all is not None:
            self._all.end()
        self._all = None
        self._tracer = OFF

    def _begin(self, step: str, at: float) -> None:
        if self._all is None:
            self._early[step] = at
        else:
            parent = self._all.traceparent
            self._open[step] = self._tracer.begin(step, parent=parent, start=at)

    def _end(self, step: str) -> None:
        self._early.pop(step, None)
        if (span := self._open.pop(step, None)) is not None:
            span.end()
