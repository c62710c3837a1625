"""The settings of the dispatch loop, a part of the configuration.

Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.core.capabilities import OFFERED
from lading.core.values import Json

API_TIMEOUT = 60.0
"""Longest wait of a dispatcher for one answer of the API, in seconds: meanwhile nothing happens to
that container.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """Settings of the dispatch loop. The defaults serve one machine; wiring sets `poll_interval`
    from `Local.PollInterval`.
    """

    poll_interval: float = 10.0
    """Time between two full looks at the queue; events come in between."""
    quota: int = 0
    """Most containers at a time; 0 is as many as fit. Wiring sets it from `Local.MaxContainers`."""
    passing: float = 0.0
    """Time for which containers of unknown run time may pass one that room is kept for
    (`Local.BackfillLimit`).
    """
    window: int = 1000
    """Most waiting containers looked at in one list, those of highest priority."""
    read_timeout: float = 60.0
    """Longest time of a look at the queue, and of a fetch."""
    status_interval: float = 1.0
    """Shortest time between two postings of scheduling statuses."""
    report_interval: float = 60.0
    """Longest time between two postings, so that the API sees a live dispatcher."""
    machine_interval: float = 3.0
    """Time between two reports about machines, and so the longest time until an order arrives."""
    retry_first: float = 0.5
    """First pause after a failure; it doubles with each further one."""
    retry_longest: float = 30.0
    """Longest pause after failures."""
    kill_interval: float = 5.0
    """Time between two TERM signals to a supervisor that should end."""
    kill_patience: float = 900.0
    """Time after the first TERM until KILL. Longer than a supervisor takes to save logs while the
    API is away.
    """
    linger: float = 3.0
    """Time that a supervisor may live on after its container has ended; a tidy end does not mind
    the TERM then.
    """
    min_retry: float = 0.0
    """Shortest time between two attempts to start one container (`Containers.MinRetryPeriod`)."""
    refusal_pause: float = 300.0
    """Pause after a fleet has refused a container: few attempts, as the API counts them."""
    only: bool = False
    """No other dispatcher serves this API: containers that fit no worker are cancelled instead of
    left to others.
    """
    misfit_patience: float = 10.0
    """Time for which a container fits no worker before its clients are warned, or it is cancelled.
    """
    twin_patience: float = 60.0
    """Time for which a container is left alone that was locked with this dispatcher's token, but
    not by it.
    """
    preemptible_partitions: tuple[str, ...] = ()
    """Partitions of containers that accept preemptible machines and name no partition."""
    capabilities: Mapping[str, Json] = field(default_factory=lambda: OFFERED)
    """Capabilities that all machines of the fleet offer (`Containers.Capabilities`)."""
    plans_disk: bool = False
    """The fleet has to know how much scratch disk a container may fill."""
