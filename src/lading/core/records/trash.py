"""The trash: computes `trash_at`, `delete_at` and `is_trashed` when a client writes one of them.

* `trash_at` and `delete_at` are both null or both set, `delete_at` not before `trash_at`; a
`trash_at` in the past becomes now. `is_trashed` alone means trashing now, or never.
* Changing `trash_at` alone sets `delete_at` a lifetime later; a `delete_at` that is too early is
moved.

Source: docs/spec/api, sections Collections and Groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.records.schema import Record
from lading.core.timestamps import later

TIMES = ("trash_at", "delete_at", "is_trashed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds in the trash: the usual and the least."""

    usual: float
    least: float


def is_trashed(record: Record, now: str) -> bool:
    """Whether a record is itself in the trash."""
    return record["trash_at"] is not None and record["trash_at"] <= now


def times(old: Record, given: Record, *, now: str, lifetimes: Lifetimes) -> Record:
    """The three attributes after a write; empty if it names none of them. Raises Invalid."""
    if not any(name in given for name in TIMES):
        return {}
    trash_at, delete_at = _wanted(old, given, now)
    if trash_at is None:
        if delete_at is not None:
            raise Invalid("delete_at: must be set together with trash_at")
        return {"trash_at": None, "delete_at": None, "is_trashed": False}
    if delete_at is not None and delete_at < trash_at:
        raise Invalid("delete_at: must not be before trash_at")
    trash_at = max(trash_at, now) if trash_at != old["trash_at"] else trash_at
    # Blocks must outlive the signatures that were made for the record before it was trashed.
    earliest = later(min(now, old["trash_at"] or now), lifetimes.least)
    delete_at = max(delete_at or later(trash_at, lifetimes.usual), earliest, trash_at)
    return {"trash_at": trash_at, "delete_at": delete_at, "is_trashed": trash_at <= now}


def _wanted(old: Record, given: Record, now: str) -> tuple[str | None, str | None]:
    """`trash_at` and `delete_at` as the client means them; a None `delete_at` is to be chosen."""
    if "trash_at" in given:
        return given["trash_at"], given.get("delete_at")
    if "is_trashed" in given and given["is_trashed"] != is_trashed(old, now):
        return (now if given["is_trashed"] else None), None
    return old["trash_at"], given.get("delete_at", old["delete_at"])


def shortened(record: Record, seconds: float) -> Record:
    """`delete_at` of a trashed record, at most `seconds` after `trash_at`."""
    return {"delete_at": min(record["delete_at"], later(record["trash_at"], seconds))}
