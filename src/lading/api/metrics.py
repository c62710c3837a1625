"""Metrics of a server: counts of what it did, and figures that are read at a scrape.

Counts grow after the commit of a change. They are those of this process: of servers that share a
database each has its own, and their sum is that of the site. Figures of the database (containers by
state, waits by reason, webhooks) are the same at each of them. They are read at most once in
`_PERIOD` seconds, however often somebody asks, by indexes or from counts in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from lading.api.server.blocks import LookAtStorage
from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import ApiClock
from lading.api.server.wait_statuses import Statuses
from lading.core.containers.container import FINAL, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.containers.reuse import Choice, Reuse
from lading.core.errors import Failure, LadingError
from lading.core.ids import milliseconds_of
from lading.core.quantities import parse_time
from lading.core.records.schema import Record
from lading.core.scheduling.planning import Category
from lading.process.metrics import (
    LONG_SECONDS,
    START_SECONDS,
    gauge,
    make_registry,
    plain,
)
from lading.store import webhooks
from lading.store.containers import live
from lading.store.database import Database

# Seconds for which figures of the database and of the volumes are not read again.
_PERIOD: Final = 10.0
_STATES: Final = ("Queued", "On hold", "Locked", "Running")
_REASONS: Final = tuple(Category)
_OTHER: Final = "other"
# Ends of containers: the command's success or failure, or the class of another failure.
_OUTCOMES: Final = ("success", "exit code", "cancelled", *Failure)
_DELIVERIES: Final = ("delivered", "failed", "dead letter")
_DECISIONS: Final = ("reused", "joined", "new", "not asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """Values of the gauges at one moment; None where they could not be read."""

    writable: bool = True
    listeners: int = 0
    states: Mapping[str, int] | None = None
    reasons: Mapping[str, int] | None = None
    dispatchers: int | None = None
    failing: int | None = None
    paused: int | None = None
    volumes: tuple[Record, ...] = ()


class ServerMetrics:
    """The metrics of one server process."""

    def __init__(self) -> None:
        self.registry = registry = make_registry()
        self.figures = ServerFigures()
        self._read_at = -_PERIOD
        self._waits = Histogram(
            "lading_container_wait_seconds",
            "From the creation of a container to its first lock by a dispatcher.",
            buckets=LONG_SECONDS,
            registry=registry,
        )
        self._starts = Histogram(
            "lading_container_start_seconds",
            "From the lock of a container to the start of its command: machine, image, inputs.",
            buckets=START_SECONDS,
            registry=registry,
        )
        self._runs = Histogram(
            "lading_container_run_seconds",
            "From the start of a container's command to the container's end, output saved.",
            buckets=LONG_SECONDS,
            registry=registry,
        )
        self._ended = Counter(
            "lading_containers_ended",
            "Containers that ended, by outcome: success, exit code (not 0), cancelled, or a class "
            "of failure.",
            ["outcome"],
            registry=registry,
        )
        self._returned = Counter(
            "lading_containers_returned",
            "Containers that went back to the queue after their lock.",
            registry=registry,
        )
        self._cpu = Counter(
            "lading_container_cpu_seconds",
            "Processor time of commands, as their supervisors reported it at the end.",
            registry=registry,
        )
        self._cost = Counter(
            "lading_container_cost_dollars", "Cost of ended containers.", registry=registry
        )
        self._decisions = Counter(
            "lading_reuse_decisions",
            "Containers for requests, by decision: reused (ended), joined (waits or runs), new, or "
            "not asked (reuse is off).",
            ["decision"],
            registry=registry,
        )
        self._deliveries = Counter(
            "lading_webhook_deliveries",
            "Attempts to deliver an event to a webhook, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for counter, values in (
            (self._ended, _OUTCOMES),
            (self._decisions, _DECISIONS),
            (self._deliveries, _DELIVERIES),
        ):
            for value in values:
                # Every series is there from the start with 0, so that a rate is right at its first
                # event.
                counter.labels(value)
        registry.register(_FigureReader(self))

    def note_transition(self, old: Record, new: Record, now: str) -> None:
        """Count a change of a container's state."""
        match old["state"], new["state"]:
            case ContainerState.QUEUED, ContainerState.LOCKED:
                # The wait of a later attempt would contain the earlier one.
                if new["lock_count"] == 1:
                    self._waits.observe(_seconds(new["created_at"], now))
            case ContainerState.LOCKED, ContainerState.RUNNING:
                self._starts.observe(_since_lock(new, now))
            case ((ContainerState.LOCKED | ContainerState.RUNNING), ContainerState.QUEUED):
                self._returned.inc()
        if new["state"] in FINAL and old["state"] not in FINAL:
            self._note_end(new)

    def _note_end(self, container: Record) -> None:
        self._ended.labels(_outcome(container)).inc()
        if container["started_at"] and container["finished_at"]:
            self._runs.observe(_seconds(container["started_at"], container["finished_at"]))
        self._cpu.inc(max(0.0, float((container["usage"] or {}).get("cpu") or 0.0)))
        self._cost.inc(max(0.0, float(container["cost"] or 0.0)))

    def note_unused(self, status: Record, count: int) -> None:
        """Count containers that were cancelled before they were ever locked; `status` is their
        `runtime_status`.
        """
        ended: Record = {"state": ContainerState.CANCELLED, "runtime_status": status}
        self._ended.labels(_outcome(ended)).inc(count)

    def note_decision(self, choice: Choice, subject: ContainerRequest) -> None:
        """Count the container that a request got."""
        if isinstance(choice, Reuse):
            decision = "reused" if choice.container.state in FINAL else "joined"
        else:
            decision = "new" if subject.use_existing else "not asked"
        self._decisions.labels(decision).inc()

    def note_delivery(self, *, is_good: bool, is_dead: bool) -> None:
        """Count an attempt to deliver an event to a webhook."""
        outcome = "delivered" if is_good else "dead letter" if is_dead else "failed"
        self._deliveries.labels(outcome).inc()

    async def look(
        self,
        database: Database,
        clock: ApiClock,
        statuses: Statuses,
        storage: LookAtStorage | None,
        *,
        listeners: int,
    ) -> None:
        """Bring the figures up to date; those that cost a query at most once in a while."""
        writable = database.fault is None
        self.figures = replace(self.figures, writable=writable, listeners=listeners)
        now = clock.time().timestamp()
        # A clock that was set back must not keep old figures.
        if 0 <= now - self._read_at < _PERIOD:
            return
        self._read_at = now
        # Unknown unless they are read now: an old number would look like a present one.
        figures = ServerFigures(writable=writable, listeners=listeners)
        # The other metrics are shown while the database does not answer.
        with suppress(LadingError):
            if writable:
                figures = await _read_figures(database, clock.now(), statuses, figures)
        with suppress(LadingError):
            if storage is not None:
                volumes = (await storage())["volumes"]
                figures = replace(figures, volumes=tuple(volumes))
        self.figures = figures

    def families(self) -> Iterable[Metric]:
        """The gauges."""
        figures = self.figures
        yield plain(
            "lading_database_writable",
            "1 while the database takes changes, 0 once it was found damaged.",
            float(figures.writable),
        )
        yield plain(
            "lading_event_listeners", "Connections that listen for events.", figures.listeners
        )
        yield gauge(
            "lading_containers",
            "Containers that have not ended, by state; on hold: queued, but nothing wants it now.",
            [((name,), count) for name, count in (figures.states or {}).items()],
            ["state"],
        )
        yield gauge(
            "lading_containers_waiting",
            "Containers that wait, by the reason that a dispatcher reports; with several "
            "dispatchers a container counts for each.",
            [((name,), count) for name, count in (figures.reasons or {}).items()],
            ["reason"],
        )
        yield plain(
            "lading_dispatchers",
            "Dispatchers that reported within the last three minutes.",
            figures.dispatchers,
        )
        yield plain(
            "lading_webhooks_failing",
            "Active webhooks whose last delivery failed.",
            figures.failing,
        )
        yield plain(
            "lading_webhooks_paused",
            "Webhooks that are paused, by a user or after long failure.",
            figures.paused,
        )
        yield from _volume_families(figures.volumes)


@dataclass(frozen=True, slots=True)
class _FigureReader(Collector):
    metrics: ServerMetrics = field()

    def collect(self) -> Iterable[Metric]:
        return self.metrics.families()


async def _read_figures(
    database: Database, now: str, statuses: Statuses, figures: ServerFigures
) -> ServerFigures:
    async with database.reading() as tx:
        states = await live.live_counts(tx)
        hooks = await webhooks.counts(tx)
        status_counts = await statuses.counts(tx, now)
    reasons = dict.fromkeys((*_REASONS, _OTHER), 0)
    for reason, count in status_counts.reasons.items():
        # Any dispatcher may report any word: the label keeps to the known ones.
        reasons[reason if reason in reasons else _OTHER] += count
    return replace(
        figures,
        states={name: states.get(name, 0) for name in _STATES},
        reasons=reasons,
        dispatchers=status_counts.dispatchers,
        failing=hooks["failing"],
        paused=hooks["paused"],
    )


def _volume_families(volumes: Iterable[Record]) -> Iterable[Metric]:
    measured = [volume for volume in volumes if volume["total"] is not None]
    yield gauge(
        "lading_volume_size_bytes",
        "Size of a volume of the block store that has one.",
        [((volume["uuid"],), volume["total"]) for volume in measured],
        ["volume"],
    )
    yield gauge(
        "lading_volume_free_bytes",
        "Free space of a volume of the block store.",
        [((volume["uuid"],), volume["free"]) for volume in measured],
        ["volume"],
    )
    yield gauge(
        "lading_volume_faults",
        "Faults of a volume since the start of this server.",
        [((volume["uuid"],), volume["faults"]) for volume in volumes],
        ["volume"],
    )
    yield gauge(
        "lading_volume_damaged_blocks",
        "Damaged blocks that reads found on a volume since the start of this server.",
        [((volume["uuid"],), volume["damaged"]) for volume in volumes],
        ["volume"],
    )


def _outcome(container: Record) -> str:
    if container["state"] == ContainerState.COMPLETE:
        return "success" if container["exit_code"] == 0 else "exit code"
    failure = (container["runtime_status"] or {}).get("failure")
    return str(failure) if failure in tuple(Failure) else "cancelled"


def _since_lock(container: Record, now: str) -> float:
    """Seconds since the lock: the uuid of the supervisor's token has the time at which the lock
    made it.
    """
    at = milliseconds_of(container["supervisor_auth_uuid"]) / 1000
    return max(0.0, parse_time(now).timestamp() - at)


def _seconds(start: str, end: str) -> float:
    return max(0.0, (parse_time(end) - parse_time(start)).total_seconds())


METRICS: Final = FeatureKey("metrics", ServerMetrics)
