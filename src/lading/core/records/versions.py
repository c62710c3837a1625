"""Versions of a collection: which changes keep the former state, and which attributes all versions
share.

* A change of name, description, properties or content may keep the former state as a record of its
own, whose `current_version_uuid` is the collection's uuid; the collection becomes the next version.
* It is kept if `preserve_version` was or is set, or if the collection had been idle for a while:
many changes in a row make one version. An idle time of -1 keeps requested versions only; 0 keeps
every state. Nothing is kept of a trashed collection.
* `preserve_version` requests one version and is then false again.
* Owner, trash, replication and storage classes of past versions are those of the collection. Past
versions cannot be written.

Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid
from lading.core.records.schema import Record
from lading.core.timestamps import later

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


def step(
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


def is_past(record: Record) -> bool:
    """Whether a collection is a past version of another one."""
    return bool(record["current_version_uuid"] != record["uuid"])


def check_present(record: Record) -> None:
    """Raise Invalid for a past version, which cannot be written."""
    if is_past(record):
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
