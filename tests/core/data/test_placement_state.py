from __future__ import annotations

import pytest

from lading.core.data.placement import UNCONFIRMED, confirmation_after_change
from lading.core.records.schema import Record

KNOWN: Record = {
    "replication_confirmed": 2,
    "replication_confirmed_at": "then",
    "storage_classes_confirmed": ["default"],
    "storage_classes_confirmed_at": "then",
}


def record(*digits: str, known: Record = KNOWN) -> Record:
    blocks = " ".join(f"{digit * 32}+1" for digit in digits)
    return {**known, "manifest_text": f". {blocks} 0:1:f\n", "portable_data_hash": blocks}


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (record("a"), record("a"), KNOWN),
        (record("a", "b"), record("b"), KNOWN),
        (record("a"), record("a", "b"), UNCONFIRMED),
        (record("a", known=UNCONFIRMED), record("b"), UNCONFIRMED),
    ],
)
def test_after_change(old: Record, new: Record, left: Record) -> None:
    assert confirmation_after_change(old, new) == left
