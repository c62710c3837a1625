"""Invalidation of the known replication of a collection when its content changes. Source:
docs/spec/api, section Collections.

`replication_confirmed` and `storage_classes_confirmed` are written by programs that count copies.
They describe the blocks of that time: a content with other blocks must be counted again.
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
    """The four values after a change of content; values that the change sets itself are not
    considered.
    """
    known = {name: old[name] for name in NAMES}
    if known == NOTHING or old["portable_data_hash"] == new["portable_data_hash"]:
        return known
    # A content with fewer blocks keeps the confirmation: each of its blocks was counted.
    return known if _blocks(new) <= _blocks(old) else dict(NOTHING)


def _blocks(record: Record) -> set[str]:
    return {filetree.bare(one) for one in manifest.locators(record["manifest_text"])}
