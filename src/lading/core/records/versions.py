"""Versions of a collection: when a change keeps what was before, and what past versions share with
the present one.

* A change of name, description, properties or content keeps the state before it as a record of its
  own, whose `current_version_uuid` is that of the collection; the collection goes on as the next
  version.
* It is kept if `preserve_version` was or is set, or if the collection had been idle for a while:
  many changes in a row make one version. An idle time of -1 keeps only what was asked for; 0 keeps
  every state. Nothing is kept of what is in the trash.
* `preserve_version` asks for one version: once that is kept, it is false again.
* Owner, trash, wanted copies and storage classes of past versions are those of the collection.
  Nobody writes them.

Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid
from lading.core.records.schema import Record
from lading.core.timestamps import later

VERSIONED: Final = ("name", "description", "properties", "portable_data_hash", "manifest_text")
SHARED: Final = (
    "owner_uuid",
    "trash_at",
    "delete_at",
    "is_trashed",
    "replication_desired",
    "storage_classes_desired",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whether versions are kept at all, and the seconds of idleness after which a change keeps
    one.
    """

    enabled: bool
    idle: float


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of a collection, and the past version to store, None when none is kept."""

    record: Record
    past: Record | None = None


def step(old: Record, new: Record, *, asked: bool, settings: Settings, now: str, uuid: str) -> Step:
    """The change from `old` to `new`; `asked`: whether it names `preserve_version`; `uuid` is for
    the past version.
    """
    if not _keeps(old, new, settings, now):
        return Step({**new, "version": old["version"]})
    past = {**old, "uuid": uuid, "current_version_uuid": old["uuid"]}
    past |= {name: new[name] for name in SHARED}
    preserve = bool(new["preserve_version"]) and asked
    return Step({**new, "version": old["version"] + 1, "preserve_version": preserve}, past)


def shared_changes(old: Record, new: Record) -> Record:
    """What has to change in the past versions too."""
    return {name: new[name] for name in SHARED if new[name] != old[name]}


def is_past(record: Record) -> bool:
    """Whether a collection is a past version of another one."""
    return bool(record["current_version_uuid"] != record["uuid"])


def check_present(record: Record) -> None:
    """Raises Invalid for a past version, which nobody writes."""
    if is_past(record):
        raise Invalid(
            f"{record['uuid']}: is version {record['version']} of "
            f"{record['current_version_uuid']}; past versions are read-only, change that one"
        )


def _keeps(old: Record, new: Record, settings: Settings, now: str) -> bool:
    if (
        not settings.enabled
        or old["is_trashed"]
        or all(old[name] == new[name] for name in VERSIONED)
    ):
        return False
    if old["preserve_version"] or new["preserve_version"]:
        return True
    return settings.idle >= 0 and later(old["modified_at"], settings.idle) <= now
