"""Metrics of a fleet of VMs, under the names of docs/spec/cloud, section Metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from lading.core.quantities import parse_time
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase

PREFIX = "arvados_dispatchcloud_"
# Quantiles of a summary, over the last _KEPT values.
_QUANTILES = (0.5, 0.9, 0.95, 0.99)
# Latest observations from which the quantiles of a summary are taken.
_KEPT = 1000
_OPERATIONS = ("Create", "List", "Destroy", "SetTags")
_PLAIN = ("driver_operations", "boot_outcomes", "instances_disappeared")
_OUTCOMES = ("success", "failure", "aborted", "disappeared")


class LostPhase(StrEnum):
    """Label of the phase in which a VM disappeared."""

    UNKNOWN = "unknown"
    BOOTING = "booting"
    IDLE = "idle"
    RUNNING = "running"
    SHUTDOWN = "shutdown"


@dataclass(slots=True)
class Samples:
    """The last durations of one kind, in seconds, and all of them together."""

    last: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    count: int = 0
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration, in seconds."""
        self.last.append(seconds)
        self.count += 1
        self.total += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFigures:
    """A VM as the gauges count it."""

    category: str
    type: str
    price: float
    vcpus: int
    ram: int
    age: float
    unremoved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetFigures:
    """A subnet of EC2: its VMs now, and how often one was asked for there, with and without
    success.
    """

    id: str
    instances: int = 0
    started: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Values of the gauges at one moment."""

    machines: tuple[MachineFigures, ...] = ()
    queue: tuple[tuple[str, str, int], ...] = ()
    """State, instance type and number of the containers."""
    running: int = 0
    not_started: int = 0
    over_quota: int = 0
    longest_wait: float = 0.0
    at_quota: bool = False
    most: int = 0
    busy_at: float = 0.0
    subnets: tuple[SubnetFigures, ...] = ()


@runtime_checkable
class Subnetted(Protocol):
    """A driver whose VMs are in subnets that are worth counting."""

    def subnets(self) -> tuple[SubnetFigures, ...]:
        """Figures of each subnet."""


class CloudCounters:
    """Counters of events; gauges are read from `look` at each scrape."""

    def __init__(self, look: Callable[[], Figures] = Figures) -> None:
        self._look = look
        self.registry = CollectorRegistry()
        self._operations = Counter(
            f"{PREFIX}driver_operations",
            "Calls of the cloud.",
            ["operation", "error"],
            registry=self.registry,
        )
        self._boots = Counter(
            f"{PREFIX}boot_outcomes",
            "Outcomes of the starts of VMs.",
            ["outcome"],
            registry=self.registry,
        )
        self._gone = Counter(
            f"{PREFIX}instances_disappeared", "VMs that are gone, by their last phase.", ["state"],
            registry=self.registry,
        )  # fmt: skip
        for name in _OPERATIONS:
            # Every series is there from the start with 0, so that a rate is right at its first
            # event.
            for error in ("0", "1"):
                self._operations.labels(name, error)
        for outcome in _OUTCOMES:
            self._boots.labels(outcome)
        for state in LostPhase:
            self._gone.labels(state.value)
        self._reached = Samples()
        self._ready = Samples()
        self._removal = Samples()
        self._started = Samples()
        self._probes = {"success": Samples(), "fail": Samples()}
        self.registry.register(_Reader(self))

    def look_at(self, look: Callable[[], Figures]) -> None:
        """Set the function that returns the gauges."""
        self._look = look

    def operation(self, name: str, *, failed: bool) -> None:
        """Count a call of the cloud."""
        self._operations.labels(name, "1" if failed else "0").inc()

    def boot(self, outcome: str) -> None:
        """Count the outcome of a boot."""
        self._boots.labels(outcome).inc()

    def gone(self, phase: InstancePhase, seconds: float) -> None:
        """Count a VM that is gone, with its time in the last phase."""
        self._gone.labels(phase.value).inc()
        # Only a removal that was asked for tells how long the cloud takes.
        if phase is InstancePhase.SHUTDOWN:
            self._removal.add(seconds)

    def reached(self, seconds: float) -> None:
        """Note the time from the creation of a VM to its verified ssh connection."""
        self._reached.add(seconds)

    def ready(self, seconds: float) -> None:
        """Note the time from the first ssh connection of a VM to its readiness."""
        self._ready.add(seconds)

    def started(self, seconds: float) -> None:
        """Note the time from the creation of a container to its supervisor's start."""
        self._started.add(seconds)

    def probed(self, seconds: float, *, failed: bool) -> None:
        """Count a probe of a VM."""
        self._probes["fail" if failed else "success"].add(seconds)

    def text(self) -> bytes:
        """All in the form that Prometheus reads. Counters have their names in Arvados too, without
        _total.
        """
        exposition = generate_latest(self.registry)
        # They are sent as untyped (`_plain`), as the library would add _total to the name of a
        # counter.
        for name in _PLAIN:
            exposition = exposition.replace(
                f"# TYPE {PREFIX}{name} untyped".encode(), f"# TYPE {PREFIX}{name} counter".encode()
            )
        return exposition

    def families(self) -> Iterator[Metric]:
        """Gauges, which are not counted but looked at."""
        figures = self._look()
        for counter in (self._operations, self._boots, self._gone):
            yield from map(_plain, counter.collect())
        yield from _machine_families(figures.machines)
        queue = GaugeMetricFamily(
            f"{PREFIX}queue_entries",
            "Containers by state and cheapest type.",
            labels=["state", "instance_type"],
        )
        for state, type_, number in figures.queue:
            queue.add_metric([state, type_], number)
        yield queue
        for name, description, value in (
            ("containers_running", "Supervisors that are believed alive.", figures.running),
            (
                "containers_allocated_not_started",
                "Containers that wait for their VM to boot.",
                figures.not_started,
            ),
            (
                "containers_not_allocated_over_quota",
                "Containers that wait for the quota.",
                figures.over_quota,
            ),
            (
                "containers_longest_wait_time_seconds",
                "Age of the oldest that waits.",
                figures.longest_wait,
            ),
            ("at_quota", "Whether the quota is used up.", float(figures.at_quota)),
            (
                "max_concurrent_containers",
                "Most containers that the API bears at a time, 0 any.",
                figures.most,
            ),
            (
                "directories_unremoved",
                "Directories on VMs that could not be removed yet.",
                float(sum(machine.unremoved for machine in figures.machines)),
            ),
            (
                "last_503_time",
                "When the API last was busy, seconds since 1970, 0 never.",
                figures.busy_at,
            ),
        ):
            yield GaugeMetricFamily(f"{PREFIX}{name}", description, value=value)
        # VMs that boot have not answered yet, and are no fault.
        ages = [
            machine.age for machine in figures.machines if machine.category in ("idle", "inuse")
        ]
        yield GaugeMetricFamily(
            f"{PREFIX}probe_age_seconds_max",
            "Time since the VM silent longest answered.",
            value=max(ages, default=0.0),
        )
        yield GaugeMetricFamily(
            f"{PREFIX}probe_age_seconds_median",
            "The median of that.",
            value=median(ages) if ages else 0.0,
        )
        yield from _subnet_families(figures.subnets)
        yield _summary(
            "instances_time_to_ssh_seconds",
            "From asked for to verified ssh.",
            [((), self._reached)],
        )
        yield _summary(
            "instances_time_to_ready_for_container_seconds",
            "From ssh to ready.",
            [((), self._ready)],
        )
        yield _summary(
            "instances_time_from_shutdown_request_to_disappearance_seconds",
            "Time of the removal of a VM.", [((), self._removal)],
        )  # fmt: skip
        yield _summary(
            "containers_time_from_queue_to_crunch_run_seconds",
            "From made to supervised.",
            [((), self._started)],
        )
        yield _summary(
            "instances_run_probe_duration_seconds", "Duration of a VM's answer to a probe.",
            [((outcome,), samples) for outcome, samples in self._probes.items()],
            labels=["outcome"],
        )  # fmt: skip


class _Reader(Collector):
    def __init__(self, counts: CloudCounters) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        return self._counts.families()


def category(phase: InstancePhase, behavior: Behavior) -> str:
    """The label `category` of a VM."""
    if phase is InstancePhase.RUNNING:
        return "inuse"
    if behavior is Behavior.HOLD:
        return "hold"
    return {
        InstancePhase.CREATING: "booting",
        InstancePhase.BOOTING: "booting",
        InstancePhase.UNKNOWN: "unknown",
    }.get(phase, "idle")


def _plain(counted: Metric) -> Metric:
    """The counter under its name in Arvados: prometheus_client puts _total behind each."""
    family = Metric(counted.name, counted.documentation, "unknown")
    for sample in counted.samples:
        if sample.name.endswith("_total"):
            family.add_sample(counted.name, sample.labels, sample.value)
    return family


def _subnet_families(subnets: tuple[SubnetFigures, ...]) -> Iterator[Metric]:
    instances = GaugeMetricFamily(f"{PREFIX}ec2_instances", "VMs by subnet.", labels=["subnet_id"])
    starts = CounterMetricFamily(
        f"{PREFIX}ec2_instance_starts", "VMs that were asked for.", labels=["subnet_id", "success"]
    )
    for subnet in subnets:
        instances.add_metric([subnet.id], subnet.instances)
        starts.add_metric([subnet.id, "1"], subnet.started)
        starts.add_metric([subnet.id, "0"], subnet.refused)
    yield from (instances, starts)


def _machine_families(machines: tuple[MachineFigures, ...]) -> Iterator[Metric]:
    total = GaugeMetricFamily(
        f"{PREFIX}instances_total", "VMs.", labels=["category", "instance_type"]
    )
    tally: dict[tuple[str, str], int] = {}
    sums: dict[str, list[float]] = {
        # All categories, so that a sum falls to 0 and does not vanish.
        name: [0.0, 0, 0]
        for name in ("inuse", "hold", "booting", "unknown", "idle")
    }
    for machine in machines:
        tally[machine.category, machine.type] = tally.get((machine.category, machine.type), 0) + 1
        for index, amount in enumerate((machine.price, machine.vcpus, machine.ram)):
            sums[machine.category][index] += amount
    for (name, type_), number in sorted(tally.items()):
        total.add_metric([name, type_], number)
    yield total
    kinds = (
        ("instances_price", "Dollars an hour."),
        ("vcpus_total", "VCPUs of VMs."),
        ("memory_bytes_total", "RAM."),
    )
    for index, (name, description) in enumerate(kinds):
        family = GaugeMetricFamily(f"{PREFIX}{name}", description, labels=["category"])
        for label, amounts in sums.items():
            family.add_metric([label], amounts[index])
        yield family


def _summary(
    name: str,
    description: str,
    samples: Iterable[tuple[tuple[str, ...], Samples]],
    labels: Iterable[str] = (),
) -> Metric:
    family = SummaryMetricFamily(f"{PREFIX}{name}", description, labels=list(labels))
    for values, series in samples:
        family.add_metric(list(values), count_value=series.count, sum_value=series.total)
        ordered = sorted(series.last)
        for share in _QUANTILES if ordered else ():
            index = min(len(ordered) - 1, int(share * len(ordered)))
            label_values = dict(zip(labels, values, strict=True)) | {"quantile": f"{share:g}"}
            family.add_sample(f"{PREFIX}{name}", label_values, ordered[index])
    return family


def age(created_at: str, now: float) -> float | None:
    """Age of an API timestamp in seconds, or None."""
    try:
        return max(0.0, now - parse_time(created_at).timestamp())
    except ValueError:
        return None
