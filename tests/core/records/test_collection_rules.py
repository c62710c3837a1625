from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.records import collection_rules
from lading.core.records.collection_rules import VersionSettings
from lading.core.records.schema import Record

OLD: Record = {
    "uuid": "live",
    "current_version_uuid": "live",
    "version": 3,
    "preserve_version": False,
    "name": "n",
    "description": None,
    "properties": {},
    "portable_data_hash": "x",
    "manifest_text": "",
    "modified_at": "2026-01-01T00:00:00.000000000Z",
    "owner_uuid": "me",
    "trash_at": None,
    "delete_at": None,
    "is_trashed": False,
    "replication_desired": None,
    "storage_classes_desired": ["default"],
}
SOON = "2026-01-01T00:00:05.000000000Z"
LATE = "2026-01-01T00:00:10.000000000Z"


def step(
    old: Record,
    new: Record,
    *,
    idle: float = 10,
    enabled: bool = True,
    now: str = LATE,
    asked: bool = False,
) -> collection_rules.VersionStep:
    settings = VersionSettings(enabled=enabled, idle=idle)
    return collection_rules.version_step(
        {**OLD, **old}, {**OLD, **old, **new}, asked=asked, settings=settings, now=now, uuid="past"
    )


@pytest.mark.parametrize(
    "change",
    [{"name": "m"}, {"description": "d"}, {"properties": {"a": 1}}, {"manifest_text": "y"}],
)
def test_a_change_keeps_what_was_before(change: Record) -> None:
    done = step({}, {**change, "owner_uuid": "you"})
    assert done.record["version"] == 4
    assert done.past == {**OLD, "uuid": "past", "owner_uuid": "you"}


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ({}, {"owner_uuid": "you", "trash_at": "t"}, {}),
        ({}, {"name": "m"}, {"now": SOON}),
        ({}, {"name": "m"}, {"enabled": False}),
        ({}, {"name": "m"}, {"idle": -1}),
        ({"is_trashed": True}, {"name": "m"}, {}),
        ({}, {"preserve_version": True}, {"asked": True}),
    ],
)
def test_nothing_is_kept(old: Record, new: Record, more: Record) -> None:
    done = step(old, new, **more)
    assert (done.past, done.record["version"]) == (None, 3)


@pytest.mark.parametrize(
    ("old", "new", "asked", "after"),
    [
        (True, True, False, False),
        (False, True, True, True),
        (True, False, True, False),
        (True, True, True, True),
    ],
)
def test_whoever_asks_gets_a_version_at_once(
    old: bool, new: bool, asked: bool, after: bool
) -> None:
    before, change = {"preserve_version": old}, {"preserve_version": new, "name": "m"}
    done = step(before, change, now=SOON, idle=-1, asked=asked)
    assert done.past is not None
    assert done.record["preserve_version"] is after


def test_an_idle_time_of_zero_keeps_every_state() -> None:
    assert step({}, {"name": "m"}, idle=0, now=OLD["modified_at"]).past is not None


def test_what_is_shared() -> None:
    assert collection_rules.shared_changes(OLD, {**OLD, "name": "m", "owner_uuid": "you"}) == {
        "owner_uuid": "you"
    }


def test_past_versions_are_read_only() -> None:
    collection_rules.check_present(OLD)
    past = {**OLD, "uuid": "past"}
    assert collection_rules.is_past_version(past)
    with pytest.raises(Invalid, match="past: is version 3 of live; past versions are read-only"):
        collection_rules.check_present(past)
