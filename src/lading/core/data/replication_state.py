"""What is known about the copies of a collection's blocks, and when it no longer holds.

Source: docs/spec/api, section Collections.

`replication_confirmed` and `storage_classes_confirmed` are written by whoever counts copies. They
say something about the blocks of that moment: a content with other blocks has to be counted anew.
"""

from __future__ import annotations

from typing import Final

from lading.core.data import filetree, manifest
from lading.core.records.schema import Record

NAMES: Final = (
    "replication_confirmed",
    "replication_confirmed_at",
    "storage_classes_confirmed",
    "storage_classes_confirmed_at",
)
NOTHING: Final[Record] = {
    "replication_confirmed": None,
    "replication_confirmed_at": None,
    "storage_classes_confirmed": [],
    "storage_classes_confirmed_at": None,
}


def after_change(old: Record, new: Record) -> Record:
    """What is left of the four values when the content changes; what the change names itself is not
    asked here.
    """
    known = {name: old[name] for name in NAMES}
    if known == NOTHING or old["portable_data_hash"] == new["portable_data_hash"]:
        return known
    return known if _blocks(new) <= _blocks(old) else dict(NOTHING)


def _blocks(record: Record) -> set[str]:
    return {filetree.bare(one) for one in manifest.locators(record["manifest_text"])}
