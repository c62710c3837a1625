"""The facts about a dispatcher's VMs that it needs after a restart and that the cloud does not
have: one small file.

Of each VM it holds when it was made, and since when it is waited for: from its creation until it is
ready, and from the first restart after which it was not reached until it is. Without this a VM that
never boots would get a new time to boot at every restart, and its cost would begin anew.
Times are seconds since 1970. The file is replaced as a whole; one that cannot be read counts as
empty.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec


class InstanceRecord(msgspec.Struct, frozen=True):
    """One VM. `waited_since` is 0 while it is ready."""

    made: float
    waited_since: float


class InstanceJournal:
    """Entries by the cloud's ids. Without a path it is kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries: dict[str, InstanceRecord] = {}
        if path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._entries = msgspec.json.decode(
                    path.read_bytes(), type=dict[str, InstanceRecord]
                )

    def find(self, id: str) -> InstanceRecord | None:
        """The record of a VM."""
        return self._entries.get(id)

    def note(self, id: str, *, made: float, waited_since: float) -> None:
        """Store the record of a VM."""
        entry = InstanceRecord(made, waited_since)
        if self._entries.get(id) != entry:
            self._entries[id] = entry
            self._write()

    def keep(self, ids: Iterable[str]) -> None:
        """Forget every VM but these."""
        kept = set(ids)
        if self._entries.keys() - kept:
            self._entries = {id: entry for id, entry in self._entries.items() if id in kept}
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        part = self._path.with_suffix(".part")
        # A full disk must not stop the dispatcher; the entries are in memory all the same.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(self._entries))
            part.replace(self._path)
