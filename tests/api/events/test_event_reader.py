"""Which events a reader sees is tested where they are read; here are the filters."""

from __future__ import annotations

import pytest

from lading.api.events.event_reader import is_filter, meets
from lading.api.events.listeners import LogEvent
from lading.core.records.schema import JSON

EVENT = LogEvent(
    id=1,
    uuid="zzzzz-57u5n-000000000000001",
    object_uuid="zzzzz-4zz18-000000000000001",
    object_owner_uuid="zzzzz-tpzed-000000000000001",
    object_kind="arvados#collection",
    event_type="create",
    event_at="2026-01-02T03:04:05.000000000Z",
    properties={},
)


@pytest.mark.parametrize(
    ("filters", "is_met"),
    [
        ([], True),
        ([["event_type", "in", ["create"]]], True),
        ([["event_type", "in", ["create"]], ["event_type", "in", ["update"]]], False),
        ([["created_at", ">", "2026-01-02T03:04:06Z"]], False),
    ],
)
def test_all_filters_have_to_be_met(filters: list[JSON], is_met: bool) -> None:
    assert meets(filters, EVENT) is is_met


def test_the_form_of_a_filter() -> None:
    assert is_filter(["event_type", "in", []])
    assert not is_filter(["event_type", "in"])
    assert not is_filter([1, "in", []])
    assert not is_filter("event_type")
