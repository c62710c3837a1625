"""Links: named relations, such as tags and names of images; those of class `permission` share.

Source: docs/spec/api, section Links.

An ordinary link needs can_write on its owner, and ends that the caller can read. Permission links
have rules of their own: see `sharing`.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.container_access import port_addresses
from lading.api.http import Answer, Call
from lading.api.resources import generic, permission_links
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.records.filters import Query, check_select
from lading.core.records.permissions import HEADS
from lading.core.records.record_types import BY_INFIX, LINKS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Transaction
from lading.store.graph import PERMISSION


async def list_links(call: Call) -> Answer:
    """A page of links."""
    return await generic.list_records(call, LINKS)


async def get_link(call: Call) -> Answer:
    """One link."""
    return await generic.get_record(call, LINKS)


async def create_link(call: Call) -> Answer:
    """A new link; an equal permission that is there already is answered instead, raised if need
    be.
    """
    record = generic.new_record(call, LINKS, generic.check_attributes(call, LINKS, None))
    _check(record)
    async with call.services.database.writing() as tx:
        if record["link_class"] == PERMISSION:
            record = await permission_links.share(tx, call, record)
        else:
            await authorization.check_owner(tx, call, record["owner_uuid"])
            await _check_ends(tx, call, record, {})
            if record["link_class"] == port_addresses.PUBLISHED:
                await port_addresses.check_link(tx, call, record)
            await generic.insert(tx, call, LINKS, record)
    return Answer(body=show(LINKS, record))


async def update_link(call: Call) -> Answer:
    """Change a link; of a permission only its name."""
    select = check_select(call.params.get("select"), LINKS)
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(tx, call.services, LINKS, call.uuid, call.caller)
        new = {**old, **generic.check_attributes(call, LINKS, old)}
        _check(new)
        if PERMISSION in (old["link_class"], new["link_class"]):
            await permission_links.check_change(tx, call, old, new)
        else:
            await authorization.check_writable(tx, LINKS, old, call.caller)
            if new["owner_uuid"] != old["owner_uuid"]:
                await authorization.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
            await _check_ends(tx, call, new, old)
            if new["link_class"] == port_addresses.PUBLISHED:
                await port_addresses.check_link(tx, call, new)
        new = await generic.apply(
            tx, call.services, LINKS, old, new, user_uuid=call.caller.user_uuid
        )
    return Answer(body=show(LINKS, new, select))


async def get_permissions(call: Call) -> Answer:
    """All permission links on a record, for who can manage it. Raises NotFound, Forbidden."""
    kind = BY_INFIX.get(ids.infix_of(call.uuid)) if ids.is_uuid(call.uuid) else None
    if kind is None or kind.infix not in HEADS:
        raise NotFound(
            f"Path not found: {call.uuid[:60]!r} is not the uuid of a record that can be shared"
        )
    async with call.services.database.reading() as tx:
        await authorization.find_readable(tx, call.services, kind, call.uuid, call.caller)
        await permission_links.check_manager(tx, call.uuid, call.caller)
        rows = await records.matching(tx, LINKS, head_uuid=call.uuid, link_class=PERMISSION)
    items = [show(LINKS, row) for row in sorted(rows, key=lambda row: str(row["uuid"]))]
    return Answer(body=generic.envelope(LINKS, Query(limit=len(items)), items, len(items)))


async def delete_link(call: Call) -> Answer:
    """Remove a link; what a permission gave ends with it."""
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(tx, call.services, LINKS, call.uuid, call.caller)
        if old["link_class"] == PERMISSION:
            await permission_links.check_manager(tx, old["head_uuid"], call.caller)
        else:
            await authorization.check_writable(tx, LINKS, old, call.caller)
        await generic.remove(tx, call.services, LINKS, old, user_uuid=call.caller.user_uuid)
    return Answer(body=show(LINKS, old))


def _check(record: Record) -> None:
    if not record["link_class"]:
        raise Invalid("link_class: can't be blank")


async def _check_ends(tx: Transaction, call: Call, record: Record, old: Record) -> None:
    for name in ("head_uuid", "tail_uuid"):
        uuid = record[name]
        if uuid is None or uuid == old.get(name):
            continue
        kind = BY_INFIX.get(ids.infix_of(uuid)) if ids.is_uuid(uuid) else None
        if ids.is_pdh(uuid) or (kind is not None and not kind.stored):
            continue
        if not await authorization.can_refer(tx, call.services, uuid, call.caller):
            raise Invalid(f"{name}: '{uuid}' not found")


HANDLERS: Final = {
    "links.list": list_links,
    "links.get": get_link,
    "links.create": create_link,
    "links.update": update_link,
    "links.delete": delete_link,
}
