"""How many containers at a time the API bears, learned from when it says that it is busy.

Source: docs/spec/dispatch, section Backpressure.

Rules:

- At first any number, or the configured estimate (`InitialQuotaEstimate`).
- When the API is overloaded (it says to many requests, and not to one now and then, that it is
  busy: 503), one fewer than run now, but never none.
- After `QUIET` seconds without such an answer a tenth more than run now, and one; it never shrinks
  by that.

It limits containers, not VMs: at its limit several still share a VM, which is not so in Arvados.
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

    `busy_at` is on the clock of whoever asks the API, 0.0 for never; `since` on that of the
    planner.
    """

    most: int = 0
    busy_at: float = 0.0
    since: float = float("-inf")

    def left(self, running: int) -> int | None:
        """How many more may be had, None for any number."""
        return max(0, self.most - running) if self.most else None

    def next_moment(self, *, now: float) -> float | None:
        """When more may be had without any event, if so."""
        due = self.since + QUIET
        return due if self.most and due > now else None


def observe(pressure: Pressure, *, busy_at: float, running: int, now: float) -> Pressure:
    """The pressure after a step, by the API's last busy answer and the number of containers."""
    if busy_at > pressure.busy_at:
        return Pressure(most=max(1, running - 1), busy_at=busy_at, since=now)
    if pressure.most and now - pressure.since >= QUIET:
        return replace(pressure, most=max(pressure.most, running + running // 10 + 1))
    return pressure
