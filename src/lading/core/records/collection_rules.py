"""Rules for collections: when a past version is kept, and the times of the trash.

Versions (docs/spec/api, section Collections):

- A change of name, description, properties or content may keep the former state as a record of its
  own, whose `current_version_uuid` is the collection's uuid; the collection becomes the next
  version.
- It is kept if `preserve_version` was or is set, or if the collection had been idle for a while:
  many changes in a row make one version. An idle time of -1 keeps requested versions only; 0 keeps
  every state. Nothing is kept of a trashed collection.
- `preserve_version` requests one version and is then false again.
- Owner, trash, replication and storage classes of past versions are those of the collection. Past
  versions cannot be written.

Trash (docs/spec/api, sections Collections and Groups), when a client writes `trash_at`, `delete_at`
or `is_trashed`:

- `trash_at` and `delete_at` are both null or both set, `delete_at` not before `trash_at`; a
  `trash_at` in the past becomes now. `is_trashed` alone means trashing now, or never.
- Changing `trash_at` alone sets `delete_at` a lifetime later; a `delete_at` that is too early is
  moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid
from lading.core.quantities import later
from lading.core.records.schema import Record

# Attributes whose change may keep a version.
VERSIONED: Final = ("name", "description", "properties", "portable_data_hash", "manifest_text")
# Attributes that past versions take from the collection.
SHARED: Final = (
    "owner_uuid",
    "trash_at",
    "delete_at",
    "is_trashed",
    "replication_desired",
    "storage_classes_desired",
)
TIMES = ("trash_at", "delete_at", "is_trashed")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSettings:
    """Whether versions are kept at all, and seconds of idleness after which a change keeps one."""

    enabled: bool
    idle: float


@dataclass(frozen=True, slots=True)
class VersionStep:
    """The new state of a collection, and the past version to store, None when none is kept."""

    record: Record
    past: Record | None = None


def version_step(
    old: Record, new: Record, *, asked: bool, settings: VersionSettings, now: str, uuid: str
) -> VersionStep:
    """The change from `old` to `new`; `asked`: it names `preserve_version`; `uuid` is for the past
    version.
    """
    if not _keeps(old, new, settings, now):
        return VersionStep({**new, "version": old["version"]})
    past = {**old, "uuid": uuid, "current_version_uuid": old["uuid"]}
    past |= {name: new[name] for name in SHARED}
    preserve = bool(new["preserve_version"]) and asked
    return VersionStep({**new, "version": old["version"] + 1, "preserve_version": preserve}, past)


def shared_changes(old: Record, new: Record) -> Record:
    """Changes that past versions need as well."""
    return {name: new[name] for name in SHARED if new[name] != old[name]}


def is_past_version(record: Record) -> bool:
    """Whether a collection is a past version of another one."""
    return bool(record["current_version_uuid"] != record["uuid"])


def check_present(record: Record) -> None:
    """Raise Invalid for a past version, which cannot be written."""
    if is_past_version(record):
        raise Invalid(
            f"{record['uuid']}: is version {record['version']} of "
            f"{record['current_version_uuid']}; past versions are read-only, change that one"
        )


def _keeps(old: Record, new: Record, settings: VersionSettings, now: str) -> bool:
    if (
        not settings.enabled
        or old["is_trashed"]
        or all(old[name] == new[name] for name in VERSIONED)
    ):
        return False
    if old["preserve_version"] or new["preserve_version"]:
        return True
    return settings.idle >= 0 and later(old["modified_at"], settings.idle) <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds in the trash: the usual and the least."""

    usual: float
    least: float


def is_trashed(record: Record, now: str) -> bool:
    """Whether a record is itself in the trash."""
    return record["trash_at"] is not None and record["trash_at"] <= now


def times(old: Record, changes: Record, *, now: str, lifetimes: Lifetimes) -> Record:
    """The three attributes after a write; empty if it names none of them. Raises Invalid."""
    if not any(name in changes for name in TIMES):
        return {}
    trash_at, delete_at = _requested_times(old, changes, now)
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


def _requested_times(old: Record, changes: Record, now: str) -> tuple[str | None, str | None]:
    """`trash_at` and `delete_at` as the client means them; a None `delete_at` is to be chosen."""
    if "trash_at" in changes:
        return changes["trash_at"], changes.get("delete_at")
    if "is_trashed" in changes and changes["is_trashed"] != is_trashed(old, now):
        return (now if changes["is_trashed"] else None), None
    return old["trash_at"], changes.get("delete_at", old["delete_at"])


def shortened(record: Record, seconds: float) -> Record:
    """`delete_at` of a trashed record, at most `seconds` after `trash_at`."""
    return {"delete_at": min(record["delete_at"], later(record["trash_at"], seconds))}
