"""Metrics of a dispatcher: its steps, its actions, its fleet and the containers that it knows.

The metrics of the VMs of a cloud are in `fleets.cloud.metrics`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from lading.core.resources import Resources
from lading.core.scheduling.planning import Category, WaitStatus
from lading.dispatch.fleet import FleetView
from lading.dispatch.queue import Queue
from lading.process.metrics import REQUEST_SECONDS, gauge, make_registry, plain

_ACTIONS: Final = ("start", "admit", "kill", "clean", "requeue", "cancel", "refuse")
_RESULTS: Final = ("done", "failed")


class DispatchMetrics:
    """The metrics of one dispatcher process. `look_at` gives it the fleet and the queue."""

    def __init__(self) -> None:
        self.registry = make_registry()
        self._view, self._queue = FleetView(), Queue(token="")
        self._reasons: Mapping[str, int] = {}
        self._steps = Histogram(
            "lading_dispatcher_step_seconds",
            "Time of one step: comparing records with processes, and planning.",
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self._actions = Counter(
            "lading_dispatcher_actions",
            "Actions on containers by action and result; to lose a lock to another dispatcher is a "
            "failure too.",
            ["action", "result"],
            registry=self.registry,
        )
        for action in _ACTIONS:
            for result in _RESULTS:
                # Every series is there from the start with 0.
                self._actions.labels(action, result)
        self.registry.register(_ViewReader(self))

    def look_at(self, view: FleetView, queue: Queue) -> None:
        """Keep the view of the fleet and the queue for the next scrape."""
        self._view, self._queue = view, queue

    def note_step(self, seconds: float) -> None:
        """Count a step of the loop."""
        self._steps.observe(seconds)

    def note_action(self, action: str, *, failed: bool) -> None:
        """Count an action on a container that has ended."""
        self._actions.labels(action, "failed" if failed else "done").inc()

    def note_statuses(self, statuses: Mapping[str, WaitStatus]) -> None:
        """Keep the number of waiting containers by reason."""
        self._reasons = Tally(str(status.category) for status in statuses.values())

    def families(self) -> Iterator[Metric]:
        """The gauges."""
        view = self._view
        yield plain(
            "lading_dispatcher_fleet_known",
            "1 once the dispatcher knows the workers of its fleet, 0 before.",
            float(view.is_known),
        )
        yield plain(
            "lading_dispatcher_workers",
            "Workers on which something can be started.",
            len(view.workers),
        )
        yield plain(
            "lading_dispatcher_workers_unasked",
            "Workers of an earlier dispatcher that have not answered yet.",
            len(view.unasked),
        )
        processes = view.processes.values()
        states = Tally(
            _state(process.alive, process.waiting, process.idle) for process in processes
        )
        yield gauge(
            "lading_dispatcher_supervisors",
            "Supervisors by state: waiting (handed over), running, saving (the command has ended), "
            "exited.",
            [((name,), states[name]) for name in ("waiting", "running", "saving", "exited")],
            ["state"],
        )
        reasons = self._reasons
        yield gauge(
            "lading_dispatcher_waiting",
            "Containers that this dispatcher looks at and does not run yet, by reason.",
            [((str(name),), reasons.get(name, 0)) for name in Category],
            ["reason"],
        )
        yield from self._resources()

    def _resources(self) -> Iterator[Metric]:
        view, queue = self._view, self._queue
        # Of a batch system a worker is a kind of node, of which it has any number.
        capacity = sum(
            (worker.capacity for worker in view.workers if not worker.queues), Resources()
        )
        needs = (
            process.takes(record.need)
            for uuid, process in view.processes.items()
            if process.alive and (record := queue.get(uuid)) is not None and record.sized
        )
        taken = sum(needs, Resources())
        pairs = ((("capacity",), capacity), (("taken",), taken))
        yield gauge(
            "lading_dispatcher_vcpus",
            "VCPUs by kind: capacity of the workers (0 for a batch system), taken by containers.",
            [(kind, float(amounts.vcpus)) for kind, amounts in pairs],
            ["kind"],
        )
        yield gauge(
            "lading_dispatcher_memory_bytes",
            "RAM by kind: capacity of the workers (0 for a batch system), taken by containers.",
            [(kind, float(amounts.ram)) for kind, amounts in pairs],
            ["kind"],
        )


@dataclass(frozen=True, slots=True)
class _ViewReader(Collector):
    metrics: DispatchMetrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics.families()


def _state(alive: bool, waiting: bool, idle: bool) -> str:
    if not alive:
        return "exited"
    return "waiting" if waiting else "saving" if idle else "running"
