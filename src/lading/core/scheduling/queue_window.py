"""How much a dispatcher looks at of a long queue, and when to look again.

A look takes the first of those that wait, up to a number. What comes after the last of a look that
did not reach the end, the *horizon*, is not known as a whole. So what is heard of one there (a new
one is told by an event) does not count: it would overtake older ones that nobody has looked at. It
comes with a later look.

- Look again when few are left within the horizon, so that what comes next is known before there is
  room for it.
- Whoever is *aside* is not one of those few: what cannot start here at all, or not for a while, and
  what has a place already. A look takes so many more, else those behind it would wait for what
  never moves.
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
        """Whether a container is among those that were looked at, as far as its place says."""
        return self.horizon is None or container.place <= self.horizon

    def is_low(self, left: int, *, size: int) -> bool:
        """Whether to look again, with so many left that are not aside, of `size` to look at."""
        return self.horizon is not None and left < max(1, size // 2)


def window_of(places: Sequence[Place], *, most: int) -> Window:
    """What a look that asked for the first `most` has shown, with what it found, in order."""
    return Window(places[-1] if places and len(places) >= most else None)
