"""Limit of the number of running containers, learned from the API's busy responses (503).

Source: docs/spec/dispatch, section Backpressure.

Rules:

- At first any number, or the configured estimate (`InitialQuotaEstimate`).
- When the API is overloaded (it answers 503 to many requests, not to single ones), the limit is one
  fewer than run now, but at least one.
- After `QUIET` seconds without such a response, the limit is a tenth more than run now, plus one;
  this step never lowers it.

The limit counts containers, not VMs as in Arvados: at the limit several containers still share a
VM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

QUIET = 60.0
"""Seconds without a busy answer before more containers are tried (docs/spec/dispatch, section
Backpressure)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """`most` containers at a time, 0 any; `busy_at` is the last busy answer that was looked at,
    `since` when that was.

    `busy_at` is on the clock of the API's client, 0.0 for never; `since` on that of the planner.
    """

    most: int = 0
    busy_at: float = 0.0
    since: float = float("-inf")

    def left(self, running: int) -> int | None:
        """Number of further containers allowed, None for any number."""
        return max(0, self.most - running) if self.most else None

    def next_moment(self, *, now: float) -> float | None:
        """Time at which the limit rises without an event, or None."""
        due = self.since + QUIET
        return due if self.most and due > now else None


def observe(pressure: Pressure, *, busy_at: float, running: int, now: float) -> Pressure:
    """The pressure after a step, by the API's last busy answer and the number of containers."""
    if busy_at > pressure.busy_at:
        return Pressure(most=max(1, running - 1), busy_at=busy_at, since=now)
    if pressure.most and now - pressure.since >= QUIET:
        return replace(pressure, most=max(pressure.most, running + running // 10 + 1))
    return pressure
