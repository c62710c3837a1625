"""Metrics of one process: the registry, buckets of durations, and the text that Prometheus reads.

Names begin with `lading_` and end with their unit; docs/metrics.md lists all of them. The values of
each label are bounded: no uuid, path or text of a user is one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from lading.core.errors import Forbidden, Unauthenticated

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets for the time of a request."""
START_SECONDS: Final = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Upper bounds of the buckets for starts, from a fork to the boot of a machine."""
LONG_SECONDS: Final = (
    0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 604800.0,
)  # fmt: skip
"""Upper bounds of the buckets for waits and runs."""


def make_registry() -> CollectorRegistry:
    """A registry with the process's own figures: processor time, memory, open files, start."""
    # The time at which each series was made would double the number of series.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def text_of(registry: CollectorRegistry) -> bytes:
    """All metrics of a registry in the text format of Prometheus."""
    return generate_latest(registry)


def gauge(
    name: str,
    help_text: str,
    values: Iterable[tuple[Sequence[str], float]],
    labels: Sequence[str] = (),
) -> GaugeMetricFamily:
    """A gauge that is read at a scrape: its value for each combination of labels."""
    family = GaugeMetricFamily(name, help_text, labels=list(labels))
    for label_values, value in values:
        family.add_metric(list(label_values), value)
    return family


def plain(name: str, help_text: str, value: float | None) -> GaugeMetricFamily:
    """A gauge without labels. None: the gauge has no value."""
    return gauge(name, help_text, [] if value is None else [((), value)])


def check_management_token(token: str, expected: str) -> None:
    """Check the token of a monitor. Raises Unauthenticated without one, Forbidden for another."""
    if not token:
        raise Unauthenticated("Not logged in: send the management token")
    if not expected or not hmac.compare_digest(token.encode(), expected.encode()):
        raise Forbidden("Forbidden: this is not the management token")
