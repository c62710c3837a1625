"""Links: named relations, such as tags and names of images (api-contract 5.5). Permission links are not offered yet."""

from __future__ import annotations

from typing import Final

from lading.api import generic
from lading.api.exchange import Answer, Call
from lading.api.shape import show
from lading.core import access, ids
from lading.core.errors import Invalid
from lading.core.filters import check_select
from lading.core.records import BY_INFIX, LINKS
from lading.core.schema import Record
from lading.store import records
from lading.store.database import Transaction


async def list_links(call: Call) -> Answer:
    """A page of links."""
    return await generic.list_records(call, LINKS)


async def get_link(call: Call) -> Answer:
    """One link."""
    return await generic.get_record(call, LINKS)


async def create_link(call: Call) -> Answer:
    """A new link."""
    record = generic.new_record(call, LINKS, generic.check_attributes(call, LINKS, None))
    _check(record)
    async with call.services.database.writing() as tx:
        await generic.check_owner(tx, call, record["owner_uuid"])
        await _check_ends(tx, call, record, {})
        await generic.insert(tx, call, LINKS, record)
    return Answer(body=show(LINKS, record))


async def update_link(call: Call) -> Answer:
    """Change a link."""
    select = check_select(call.params.get("select"), LINKS)
    async with call.services.database.writing() as tx:
        old = await generic.find_readable(tx, call.services, LINKS, call.uuid, call.caller)
        access.check_writable(call.caller, old)
        new = {**old, **generic.check_attributes(call, LINKS, old)}
        _check(new)
        await generic.check_owner(tx, call, new["owner_uuid"])
        await _check_ends(tx, call, new, old)
        new = await generic.apply(tx, call.services, LINKS, old, new, user_uuid=call.caller.user_uuid)
    return Answer(body=show(LINKS, new, select))


async def delete_link(call: Call) -> Answer:
    """Remove a link."""
    return await generic.delete_record(call, LINKS)


def _check(record: Record) -> None:
    if not record["link_class"]:
        raise Invalid("link_class: can't be blank")
    if record["link_class"] == "permission":
        raise Invalid("link_class: sharing by permission links is not offered yet; records belong to one user")


async def _check_ends(tx: Transaction, call: Call, record: Record, old: Record) -> None:
    for name in ("head_uuid", "tail_uuid"):
        uuid = record[name]
        if uuid is None or uuid == old.get(name):
            continue
        kind = BY_INFIX.get(ids.infix_of(uuid)) if ids.is_uuid(uuid) else None
        if ids.is_pdh(uuid) or (kind is not None and not kind.stored):
            continue
        if kind is None or not await _readable(tx, call, kind.plural, uuid):
            raise Invalid(f"{name}: '{uuid}' not found")


async def _readable(tx: Transaction, call: Call, plural: str, uuid: str) -> bool:
    kind = next(one for one in BY_INFIX.values() if one.plural == plural)
    record = await records.get(tx, kind, uuid)
    return record is not None and (
        call.caller.is_admin or uuid == call.caller.user_uuid or record["owner_uuid"] == call.caller.user_uuid
    )


HANDLERS: Final = {
    "links.list": list_links,
    "links.get": get_link,
    "links.create": create_link,
    "links.update": update_link,
    "links.delete": delete_link,
}
