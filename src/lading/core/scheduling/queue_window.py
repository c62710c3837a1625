"""The part of a long queue that a dispatcher reads, and when it reads again.

A look takes the first of those that wait, up to a number. What comes after the last of a look that
did not reach the end, the *horizon*, is not known as a whole. So what is heard of one there (a new
one is told by an event) does not count: it would overtake older ones that nobody has looked at. It
comes with a later look.

- Look again when few are left within the horizon, so that what comes next is known before there is
  room for it.
- Containers *aside* are not counted: those that cannot start here, or not for a while, and those
  that have a place already. A look reads so many more, so that they do not hide the containers
  behind them.
- Workflow runners have room of their own (`core.scheduling.batch_planner`), and so a window of
  their own: a queue of ordinary containers does not hide them, and they hide no container that they
  may wait for.

Source: docs/spec/dispatch, section Queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lading.core.scheduling.planning import Place, TrackedContainer


@dataclass(frozen=True, slots=True)
class Window:
    """The first of a queue, up to the one at `horizon`; None is all of it."""

    horizon: Place | None = None

    def shows(self, container: TrackedContainer) -> bool:
        """Whether a container's place is within the window."""
        return self.horizon is None or container.place <= self.horizon

    def is_low(self, left: int, *, size: int) -> bool:
        """Whether to look again: few of `size` containers are left that are not aside."""
        return self.horizon is not None and left < max(1, size // 2)


def window_of(places: Sequence[Place], *, most: int) -> Window:
    """What a look that asked for the first `most` has shown, with what it found, in order."""
    return Window(places[-1] if places and len(places) >= most else None)
