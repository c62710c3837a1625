"""Events in the form of CloudEvents 1.0, as JSON.

Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md.
"""

from __future__ import annotations

from typing import Final

from lading.core.records.record_types import BY_INFIX
from lading.core.records.schema import JSON, Record

_VERSION: Final = "1.0"
_PREFIX: Final = "lading"


def event_name(object_uuid: str, event_type: str) -> str:
    """The type of an event, as `lading.container_request.update`."""
    kind = BY_INFIX.get(object_uuid[6:11])
    return f"{_PREFIX}.{kind.singular if kind is not None else 'record'}.{event_type}"


def cloud_event(
    *,
    uuid: str,
    number: int,
    object_uuid: str,
    object_owner_uuid: str,
    event_type: str,
    event_at: str,
    properties: JSON,
) -> Record:
    """The event of a log row: `uuid` and `number` are those of the row."""
    return {
        "specversion": _VERSION,
        "id": uuid,
        "source": f"urn:lading:{uuid[:5]}",
        "type": event_name(object_uuid, event_type),
        "subject": object_uuid,
        "time": event_at,
        "datacontenttype": "application/json",
        "data": {
            "log_id": number,
            "object_uuid": object_uuid,
            "object_owner_uuid": object_owner_uuid,
            "event_type": event_type,
            "properties": properties,
        },
    }
