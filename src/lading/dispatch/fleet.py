"""The seam between the dispatch loop and what runs supervisors: local processes, later Slurm and cloud VMs.

The seam is level-triggered. `view` tells what is known now and never waits; `changed` wakes its one consumer when
the view may differ; nothing is lost when several changes fall together. Rules for an implementation:

- One process for one container. `start` of a container that has a process, alive or not cleared away, raises
  Conflict and starts nothing.
- When `start` returns, the view shows the process. When it raises, a process may or may not exist; if one does, it
  shows in the view as soon as the fleet knows.
- A process goes from alive to exited and, by `clean`, out of the view. It never comes back to life.
- `clean` returns only when nothing is left of the container: no process, no mount, no directory. It may be repeated.
  For a living process it raises Conflict and touches nothing.
- `signal` for a process that is not alive does nothing.
- `view().known` is False as long as the fleet cannot say which processes exist, as just after its start. Later
  troubles leave it True: what was seen alive counts as alive until the fleet knows better. Workers that cannot be
  started on now are not in the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Protocol

from lading.core.sizing import Resources


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that can be started on now, and all that it can hold."""

    id: str
    capacity: Resources


@dataclass(frozen=True, slots=True)
class Process:
    """The supervisor of one container. `worker` is "" when it is not known where it runs."""

    worker: str
    alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What a fleet knows at one moment. `processes` is by container uuid."""

    known: bool = False
    workers: tuple[WorkerView, ...] = ()
    processes: Mapping[str, Process] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A container to start a supervisor for. The token can touch this one container; it is never logged."""

    uuid: str
    worker: str
    token: str

    def __repr__(self) -> str:
        return f"Assignment(uuid={self.uuid!r}, worker={self.worker!r})"


class Fleet(Protocol):
    """Runs supervisors. One consumer."""

    def view(self) -> FleetView:
        """What is known now."""

    async def changed(self) -> None:
        """Wait until the view may differ from what it was when `changed` last returned."""

    async def start(self, assignment: Assignment) -> None:
        """Start a supervisor.

        Raises Conflict when the container has a process here, Unavailable when none can be started now,
        ExecutionError when the worker refuses this one.
        """

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a supervisor. Raises Unavailable."""

    async def clean(self, uuid: str) -> None:
        """Clear away what a dead supervisor left. Raises Conflict when it is alive, Unavailable."""
