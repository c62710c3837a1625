"""The slice of the configuration that the dispatch loop receives. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the loop behaves. The defaults serve one machine; wiring sets `poll_interval` from `Local.PollInterval`."""

    poll_interval: float = 10.0
    """Time between two full looks at the queue; events come in between."""
    window: int = 1000
    """Most waiting containers looked at in one list, those of highest priority."""
    status_interval: float = 1.0
    """Shortest time between two postings of scheduling statuses."""
    retry_first: float = 0.5
    """First pause after a failure; it doubles with each further one."""
    retry_longest: float = 30.0
    """Longest pause after failures."""
    kill_interval: float = 5.0
    """Time between two TERM signals to a supervisor that should end."""
    kill_patience: float = 900.0
    """Time after the first TERM until KILL. Longer than a supervisor takes to save logs while the API is away."""
    linger: float = 10.0
    """Time that a supervisor may live on after its container has ended."""
