"""Events as CloudEvents."""

from __future__ import annotations

from lading.core.records.cloud_events import cloud_event, event_name


def test_names_say_the_kind_and_what_was_done() -> None:
    assert event_name("zzzzz-xvhdp-000000000000000", "update") == "lading.container_request.update"
    assert event_name("zzzzz-00000-000000000000000", "odd") == "lading.record.odd"


def test_an_event_has_the_attributes_of_the_standard() -> None:
    made = cloud_event(
        uuid="zzzzz-57u5n-000000000000001",
        number=7,
        object_uuid="zzzzz-4zz18-000000000000000",
        object_owner_uuid="zzzzz-tpzed-000000000000000",
        event_type="create",
        event_at="2026-01-02T03:04:05.000000000Z",
        properties={"new_attributes": {"name": "x"}},
    )
    assert made.pop("data")["log_id"] == 7
    assert made == {
        "specversion": "1.0",
        "id": "zzzzz-57u5n-000000000000001",
        "source": "urn:lading:zzzzz",
        "type": "lading.collection.create",
        "subject": "zzzzz-4zz18-000000000000000",
        "time": "2026-01-02T03:04:05.000000000Z",
        "datacontenttype": "application/json",
    }
