"""The table of record types is whole."""

from __future__ import annotations

import pytest

from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import BY_INFIX, RECORDS, kind_of
from lading.core.records.schema import RecordType
from lading.core.records.service_records import COMPUTED_PERMISSIONS


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.plural)
def test_indexes_name_columns(kind: RecordType) -> None:
    columns = {one.name for one in kind.columns}
    assert {name for fields in (*kind.indexes, *kind.unique) for name in fields} <= columns
    assert len(columns) == len(kind.columns)
    common = {"uuid", "owner_uuid", "created_at", "modified_at", "modified_by_user_uuid"}
    assert common <= columns or kind is COMPUTED_PERMISSIONS


def test_kinds() -> None:
    assert kind_of("zzzzz-dz642-000000000000000") == "arvados#container"
    assert kind_of("zzzzz-j7d0g-000000000000000") == "arvados#group"
    assert kind_of("zzzzz-xxxxx-000000000000000") is kind_of("x") is kind_of(None) is None
    assert BY_INFIX["xvhdp"] is REQUESTS
