"""Log rows: changes and events of records; users may add rows of other types (docs/spec/api,
section Log rows).
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import dispatching, generic
from lading.api.serializer import show
from lading.core.errors import Invalid
from lading.core.records.record_types import BY_INFIX, LOGS
from lading.store import records

_OURS: Final = dispatching.EVENT_TYPES - {"dispatch"} | {
    "create", "update", "delete", "resolve", "end", "secret_access", "shell", "shell_end",
}  # fmt: skip


async def list_logs(call: ApiCall) -> ApiResponse:
    """A page of log rows."""
    return await generic.list_records(call, LOGS)


async def get_log(call: ApiCall) -> ApiResponse:
    """One log row."""
    return await generic.get_record(call, LOGS)


async def create_log(call: ApiCall) -> ApiResponse:
    """Add a row about a record that the caller can read."""
    given = generic.check_attributes(call, LOGS, None)
    record = generic.new_record(call, LOGS, {**given, "owner_uuid": call.caller.user_uuid})
    record.pop("id")
    if record["event_type"] in _OURS:
        raise Invalid(f"event_type: '{record['event_type']}' rows are written by the server only")
    record["event_at"] = record["event_at"] or record["created_at"]
    uuid = record["object_uuid"]
    async with call.services.database.writing() as tx:
        if uuid is not None:
            kind = BY_INFIX.get(uuid[6:11])
            if kind is None or not kind.stored:
                raise Invalid(f"object_uuid: '{uuid}' not found")
            about = await authorization.find_readable(
                tx, call.services, kind, uuid, call.caller, include_trash=True
            )
            record["object_owner_uuid"] = about["owner_uuid"]
        record["id"] = await records.insert(tx, LOGS, record)
        if audit.is_event(record):
            audit.tell(tx, call.services, record)
    return ApiResponse(body=show(LOGS, record))


HANDLERS: Final = {"logs.list": list_logs, "logs.get": get_log, "logs.create": create_log}
