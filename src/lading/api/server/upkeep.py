"""The memory of the sweep of a server, and of the checks of callers inside containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lading.api.server.features import FeatureKey


class Upkeep:
    """State of the sweep.

    When and from which address each token was last used, until the sweep stores it, so that a read
    costs no write. The containers that have lost their dispatcher. The number of the log row up to
    which old rows have been deleted since this process started: rows that were kept there are not
    looked at again.
    """

    def __init__(self) -> None:
        self.shortened_to = 0
        self.orphans: dict[str, str] = {}
        """Containers whose dispatcher's token has ended, with the time since when this is known."""
        self._uses: dict[str, tuple[str, str]] = {}

    def note(self, token_uuid: str, now: str, address: str) -> None:
        """Note the use of a token."""
        self._uses[token_uuid] = (now, address)

    def uses(self, token_uuids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """{token uuid: (time, address)} of uses that are not stored yet, of these tokens."""
        return {uuid: self._uses[uuid] for uuid in token_uuids if uuid in self._uses}

    def take(self) -> dict[str, tuple[str, str]]:
        """{token uuid: (time, address)} of the uses since the last call."""
        taken, self._uses = self._uses, {}
        return taken


class EntranceChecks:
    """Checks of callers inside containers: whether they may still be there."""

    def __init__(self) -> None:
        self.interval = 30.0
        """Seconds between two checks of one caller."""


UPKEEP: Final = FeatureKey("upkeep", Upkeep)
ENTRANCE_CHECKS: Final = FeatureKey("entrance checks", EntranceChecks)
