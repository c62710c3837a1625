"""Memory shared by holders who ask for more of it as they go on: who may have how much, and when.

Somebody who has a part and waits for more must not wait for ever. So more is granted only as long
as all can finish one after the other, the one that lacks least first (the banker's algorithm).
Source: E. W. Dijkstra, EWD 108.
"""

from __future__ import annotations


class Claim:
    """Bytes of one holder: `held` now, `size` in the end."""

    __slots__ = ("held", "size")

    def __init__(self, size: int) -> None:
        self.held = 0
        self.size = size

    @property
    def missing(self) -> int:
        """Bytes until the end."""
        return self.size - self.held


class Pool:
    """At most `limit` bytes, at least as many as the largest claim."""

    __slots__ = ("_growing", "_promised", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._growing: dict[Claim, None] = {}
        self._promised = 0
        """Bytes of the claims that lack some."""

    def fits(self, claim: Claim, amount: int) -> bool:
        """Whether the claim can have so many bytes more, and all can finish afterwards."""
        if self.taken + amount > self.limit:
            return False
        held = claim.held + amount
        left = self.limit - self._promised
        if claim in self._growing:
            left += claim.held
        needs = [(one.missing, one.held) for one in self._growing if one is not claim]
        if held < claim.size:
            left -= held
            needs.append((claim.size - held, held))
        if not needs or max(needs)[0] <= left:
            return True
        for missing, freed in sorted(needs):
            if missing > left:
                return False
            left += freed
        return True

    def add(self, claim: Claim, amount: int) -> None:
        """The claim has got so many bytes more; its `held` is still what it was."""
        self.taken += amount
        self._forget(claim)
        held = claim.held + amount
        if held < claim.size:
            self._growing[claim] = None
            self._promised += held

    def remove(self, claim: Claim) -> None:
        """The claim has ended."""
        self._forget(claim)
        self.taken -= claim.held

    def _forget(self, claim: Claim) -> None:
        if claim in self._growing:
            del self._growing[claim]
            self._promised -= claim.held


class Pace:
    """Whether bytes come, or are taken, quickly enough: `rate` bytes a second within each `window`
    seconds.

    Only the time counts in which the other side is waited for. A rate of 0 is never too slow.
    """

    __slots__ = ("_moved", "_rate", "_waited", "_window")

    def __init__(self, rate: int, window: float) -> None:
        self._rate = rate
        self._window = window
        self._moved = 0
        self._waited = 0.0

    @property
    def left(self) -> float | None:
        """Seconds that the other side may be waited for; None: any time."""
        return max(0.0, self._window - self._waited) if self._rate > 0 else None

    def note(self, size: int, seconds: float) -> None:
        """So many bytes moved, after so many seconds of waiting."""
        self._moved += size
        self._waited += seconds
        if self._moved >= self._rate * self._window:
            self._moved, self._waited = 0, 0.0
