"""Agreements: documents that users sign before they may work.

An agreement is a collection that a link of class `signature` names: name `require`, owned by and
pointing from the system user. A signature is a link of the system user's from the user to the
collection, named `click`. Workbench 2 asks for signatures at login.

Source: docs/spec/api, section Users; Arvados' `user_agreements`.
"""

from __future__ import annotations

from typing import Final

from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import show
from lading.core import ids
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records.expressions import Query
from lading.core.records.record_types import COLLECTIONS, LINKS
from lading.core.records.schema import Record, RecordType
from lading.store import records
from lading.store.database import Transaction

_CLASS: Final = "signature"
_REQUIRED: Final = "require"
_SIGNED: Final = "click"


async def list_agreements(call: ApiCall) -> ApiResponse:
    """The collections that users have to agree to."""
    async with call.services.database.reading() as tx:
        links = await _signature_links(tx, call, _REQUIRED, call.services.ids.system_user)
        uuids = dict.fromkeys(str(link["head_uuid"]) for link in links)
        rows = [await records.get(tx, COLLECTIONS, uuid) for uuid in uuids]
    return _list_all(
        COLLECTIONS, [row for row in rows if row is not None and not row["is_trashed"]]
    )


async def list_signatures(call: ApiCall) -> ApiResponse:
    """The signatures of the caller; an admin may name another user."""
    user, asked = call.caller.user_uuid, call.params.get("uuid")
    if call.caller.is_admin and isinstance(asked, str):
        user = asked
    async with call.services.database.reading() as tx:
        return _list_all(LINKS, await _signature_links(tx, call, _SIGNED, user))


async def sign_agreement(call: ApiCall) -> ApiResponse:
    """Agree to the collection `uuid`; a second signature changes nothing. Raises NotFound for a
    collection that needs no signature.
    """
    uuid, user, services = call.params.get("uuid"), call.caller.user_uuid, call.services
    if not isinstance(uuid, str) or not ids.is_uuid(uuid, Infix.COLLECTION):
        raise Invalid("uuid: must name the collection of the user agreement")
    async with services.database.writing() as tx:
        required = await _signature_links(tx, call, _REQUIRED, services.ids.system_user)
        if uuid not in [link["head_uuid"] for link in required]:
            raise NotFound(f"Path not found: {uuid} is no agreement that users have to sign")
        signed = [
            link
            for link in await _signature_links(tx, call, _SIGNED, user)
            if link["head_uuid"] == uuid
        ]
        if signed:
            return ApiResponse(body=show(LINKS, signed[0]))
        attributes = {"link_class": _CLASS, "name": _SIGNED, "tail_uuid": user, "head_uuid": uuid}
        record = generic.new_record(
            call, LINKS, {**attributes, "owner_uuid": services.ids.system_user}
        )
        await generic.insert(tx, call, LINKS, record)
    return ApiResponse(body=show(LINKS, record))


async def _signature_links(tx: Transaction, call: ApiCall, name: str, tail: str) -> list[Record]:
    """Links of the system user's, which no other user can make, from `tail` to collections."""
    owner = call.services.ids.system_user
    rows = await records.matching(
        tx, LINKS, tail_uuid=tail, link_class=_CLASS, name=name, owner_uuid=owner
    )
    found = [row for row in rows if ids.is_uuid(row["head_uuid"] or "", Infix.COLLECTION)]
    return sorted(found, key=lambda row: str(row["uuid"]))


def _list_all(kind: RecordType, rows: list[Record]) -> ApiResponse:
    shown = [show(kind, row, kind.listed) for row in rows]
    return ApiResponse(body=generic.envelope(kind, Query(limit=len(shown)), shown, len(shown)))
