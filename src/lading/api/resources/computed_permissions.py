"""Everybody's permissions, for admins: one row for each user and what the user may do.

Source: docs/spec/api, section Other records.
"""

from __future__ import annotations

from typing import Final

from lading.api.http import Answer, Call
from lading.core.errors import Invalid
from lading.core.records import access
from lading.core.records.filters import (
    Order,
    Query,
    check_filters,
    check_number,
    check_order,
    check_select,
    check_where,
)
from lading.core.records.record_types import COMPUTED_PERMISSIONS as KIND
from lading.core.records.schema import Record
from lading.store import permission_queries

_LAST: Final = ("user_uuid", "target_uuid")


async def list_permissions(call: Call) -> Answer:
    """A page of permissions; they cannot be counted, and paging goes by filters."""
    access.check_admin(call.caller, "see everybody's permissions")
    params = call.params
    if params.get("count") not in (None, "none"):
        raise Invalid("count: must be 'none' for computed_permissions")
    if check_number(params, "offset", 0):
        raise Invalid(
            "offset: not for computed_permissions; filter by user_uuid and target_uuid instead"
        )
    limit = min(check_number(params, "limit", 100), call.services.config.API.MaxItemsPerResponse)
    order = {one.column: one for one in check_order(params.get("order"), KIND, plain=True)}
    for name in _LAST:
        order.setdefault(name, Order(name))
    query = Query(
        where=check_filters(params.get("filters"), KIND) + check_where(params.get("where"), KIND),
        order=tuple(order.values()),
        select=check_select(params.get("select"), KIND),
        limit=limit,
    )
    database = call.services.database
    async with database.reading() as tx:
        rows = await permission_queries.computed(tx, database.dialect, query) if limit else []
    items = [{**row, "kind": KIND.kind} for row in rows]
    body: Record = {
        "kind": f"{KIND.kind}List",
        "etag": "",
        "self_link": "",
        "offset": 0,
        "limit": limit,
    }
    return Answer(body={**body, "items": items, "included": []})


HANDLERS: Final = {"computed_permissions.list": list_permissions}
