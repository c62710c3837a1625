"""Leases of work that the servers of a database share.

Each piece of work is a row with the columns `holder` and `held_until`. A server takes it for some
seconds, and renews that while it works. The work of a server that ended is free once that time has
passed. Each change is a compare-and-set: a server that was too late must not go on beside the next
one. The leases of dispatchers are others (`core.scheduling.leases`).
"""

# ruff: noqa: S608 - names are constants of the callers, values go into placeholders

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lading.store.database import Transaction, Value

_NO_CHANGES: Final[Mapping[str, Value]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLease:
    """The server that works on something, and the time until which it does; "" for nobody."""

    holder: str = ""
    held_until: str = ""

    def is_held(self, holder: str, now: str) -> bool:
        """Whether another server than `holder` works on it."""
        return self.holder not in ("", holder) and self.held_until > now


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """A table of work. `key` is the column that identifies a piece, and `condition` is SQL for the
    rows that are work: no other row is taken or renewed.
    """

    name: str
    key: str
    condition: str = "1 = 1"

    async def take(
        self,
        tx: Transaction,
        key: str,
        lease: WorkLease,
        *,
        now: str,
        condition: str = "1 = 1",
        values: Sequence[Value] = (),
    ) -> bool:
        """Take a piece of work that nobody holds; False if somebody does, or if it does not meet
        the further `condition`, whose placeholders get `values`.
        """
        changed = await tx.execute(
            f"UPDATE {self.name} SET holder = ?, held_until = ? WHERE {self.key} = ?"
            f" AND {self.condition} AND held_until <= ? AND {condition}",
            (lease.holder, lease.held_until, key, now, *values),
        )
        return changed == 1

    async def renew(
        self,
        tx: Transaction,
        key: str,
        lease: WorkLease,
        changes: Mapping[str, Value] = _NO_CHANGES,
    ) -> bool:
        """Hold a piece of work until a later time, and set further columns of it. False if the
        holder has lost it: nothing is changed.
        """
        columns = "".join(f", {name} = ?" for name in changes)
        changed = await tx.execute(
            f"UPDATE {self.name} SET held_until = ?{columns} WHERE {self.key} = ? AND holder = ?"
            f" AND {self.condition}",
            (lease.held_until, *changes.values(), key, lease.holder),
        )
        return changed == 1

    async def release(self, tx: Transaction, key: str, holder: str) -> None:
        """Free a piece of work that the holder has."""
        await tx.execute(
            f"UPDATE {self.name} SET holder = '', held_until = '' WHERE {self.key} = ?"
            " AND holder = ?",
            (key, holder),
        )
