"""Agreements that users have to sign before they go on: collections, and links that say which and
by whom.

An admin stores a collection, and a link of the system user's to it: class `signature`, name
`require`, from the system user. Who has signed has a link of the system user's from them to the
collection, named `click`. Source: Arvados' `user_agreements`, which Workbench 2 asks for when
somebody logs in.
"""

from __future__ import annotations

from typing import Final

from lading.api.http import Answer, Call
from lading.api.resources import generic
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records.filters import Query
from lading.core.records.record_types import COLLECTIONS, LINKS
from lading.core.records.schema import Record, RecordType
from lading.store import records
from lading.store.database import Transaction

_CLASS: Final = "signature"
_REQUIRED: Final = "require"
_SIGNED: Final = "click"


async def list_agreements(call: Call) -> Answer:
    """The collections that users have to agree to."""
    async with call.services.database.reading() as tx:
        links = await _links(tx, call, _REQUIRED, call.services.system_user)
        uuids = dict.fromkeys(str(one["head_uuid"]) for one in links)
        rows = [await records.get(tx, COLLECTIONS, uuid) for uuid in uuids]
    return _listed(COLLECTIONS, [row for row in rows if row is not None and not row["is_trashed"]])


async def list_signatures(call: Call) -> Answer:
    """What the caller has signed; an admin may name another user."""
    user, asked = call.caller.user_uuid, call.params.get("uuid")
    if call.caller.is_admin and isinstance(asked, str):
        user = asked
    async with call.services.database.reading() as tx:
        return _listed(LINKS, await _links(tx, call, _SIGNED, user))


async def sign(call: Call) -> Answer:
    """Agree to the collection `uuid`; signing again changes nothing. Raises NotFound for what asks
    no signature.
    """
    uuid, user, services = call.params.get("uuid"), call.caller.user_uuid, call.services
    if not isinstance(uuid, str) or not ids.is_uuid(uuid, Infix.COLLECTION):
        raise Invalid("uuid: must be that of the collection that is agreed to")
    async with services.database.writing() as tx:
        required = await _links(tx, call, _REQUIRED, services.system_user)
        if uuid not in [one["head_uuid"] for one in required]:
            raise NotFound(f"Path not found: {uuid} is no agreement that users have to sign")
        signed = [one for one in await _links(tx, call, _SIGNED, user) if one["head_uuid"] == uuid]
        if signed:
            return Answer(body=show(LINKS, signed[0]))
        given = {"link_class": _CLASS, "name": _SIGNED, "tail_uuid": user, "head_uuid": uuid}
        record = generic.new_record(call, LINKS, {**given, "owner_uuid": services.system_user})
        await generic.insert(tx, call, LINKS, record)
    return Answer(body=show(LINKS, record))


async def _links(tx: Transaction, call: Call, name: str, tail: str) -> list[Record]:
    """Links of the system user's, which nobody else can make, from `tail` to collections."""
    owner = call.services.system_user
    rows = await records.matching(
        tx, LINKS, tail_uuid=tail, link_class=_CLASS, name=name, owner_uuid=owner
    )
    found = [row for row in rows if ids.is_uuid(row["head_uuid"] or "", Infix.COLLECTION)]
    return sorted(found, key=lambda row: str(row["uuid"]))


def _listed(kind: RecordType, rows: list[Record]) -> Answer:
    shown = [show(kind, row, kind.listed) for row in rows]
    return Answer(body=generic.envelope(kind, Query(limit=len(shown)), shown, len(shown)))
