"""Collections: content, names, versions, and the trash.

A change is prepared outside of any transaction, because large manifests take long, and stored if
the content that it was made from is still there; else it is prepared again. `If-Match` with an etag
on an update refuses the update with 412 if the record has changed since. Past versions are found by
their own uuid, and listed with `include_old_versions`; `core.records.collection_rules` decides
which are kept.

The lineage (`provenance`, `used_by`) is the containers and contents that a content came from, or
that used it: {uuid or portable data hash: record}. Contents are named by their hash, with one
readable collection that has it; between them are the containers, and the requests of these. It has
only records that the caller can read, within the scopes of the token (a link that shares one
collection shows nothing else), and ends at other records. At most `_LIMIT` containers are followed,
the nearest first.

Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.manifests import (
    confirm_classes,
    find_content,
    not_trashed,
    read_content,
    read_splicing,
    sign,
)
from lading.api.resources import dispatching, generic
from lading.api.resources.accounts import quotas
from lading.api.serializer import check_match, show
from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core import ids
from lading.core.data import placement
from lading.core.data.placement import CONFIRMATION, confirmation_after_change
from lading.core.errors import Conflict, Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records import attributes, collection_rules
from lading.core.records.access import Principal
from lading.core.records.attributes import distinct_name
from lading.core.records.collection_rules import (
    VersionSettings,
    check_present,
    is_trashed,
    shortened,
)
from lading.core.records.expressions import Expression
from lading.core.records.filters import check_select
from lading.core.records.permissions import Present
from lading.core.records.permissions import check_group_name as check_name
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import contents, records
from lading.store.database import Transaction

# Times that a change is prepared again because another call changed the content first.
_ATTEMPTS: Final = 20
PRESENT: Final[Expression] = Present()
# Attributes that the confirmed storage classes depend on.
_CONFIRMED_BY: Final = ("portable_data_hash", "storage_classes_desired")
_LINES: Final = FeatureKey("changes of files", WeakValueDictionary[str, asyncio.Lock])
"""Locks for changes of the files of one collection, by its uuid."""


class _Outrun(Exception):
    """The content that a change was made from has been changed by another call."""


async def list_collections(call: ApiCall) -> ApiResponse:
    """A page of collections; manifests are signed when they are selected."""
    where = listed(call)
    query = generic.prepare_query(call, COLLECTIONS, where)
    names = query.select or ()
    if "manifest_text" not in names:
        return await generic.list_records(call, COLLECTIONS, where)
    # Signatures end with the trash time, whether the caller wants to see it or not.
    if not (shows_time := "trash_at" in names):
        call = replace(call, params={**call.params, "select": [*names, "trash_at"]})
    response = await generic.list_records(call, COLLECTIONS, where)
    # `API.MaxIndexDatabaseRead` limits the manifests of a page with the other texts.
    for item in response.body["items"]:
        trash_at = item["trash_at"] if shows_time else item.pop("trash_at")
        item["manifest_text"] = await sign(
            call.services.clock, call.services.config, call.caller, item["manifest_text"], trash_at
        )
    return response


def listed(call: ApiCall) -> tuple[Expression, ...]:
    """The conditions of lists: collections outside the trash and no past versions, unless the call
    asks for more.
    """
    trash = () if call.params.get("include_trash") else (not_trashed(call.services.clock.now()),)
    return trash if call.params.get("include_old_versions") else (*trash, PRESENT)


async def get_collection(call: ApiCall) -> ApiResponse:
    """One collection by uuid, or by the hash of its content."""
    select = check_select(call.params.get("select"), COLLECTIONS)
    services, now = call.services, call.services.clock.now()
    async with services.database.reading() as tx:
        if ids.is_uuid(call.uuid):
            trash = bool(call.params.get("include_trash"))
            record = await find_collection(
                tx, services.clock, services.config, call.uuid, call.caller, include_trash=trash
            )
            if is_trashed(record, now) and not trash:
                raise NotFound(f"Path not found: collection {call.uuid} is in the trash")
            return await _shown(call, record, select)
        # Clients append permission hints (+A...) of blocks to the hash of a content.
        content = await find_content(tx, services.clock, call.caller, call.uuid.partition("+A")[0])
    pseudo = {
        "uuid": content["portable_data_hash"],
        "portable_data_hash": content["portable_data_hash"],
        "manifest_text": await sign(
            services.clock,
            services.config,
            call.caller,
            content["manifest_text"],
            content["trash_at"],
        ),
    }
    if content["trash_at"] is not None:
        pseudo["trash_at"] = content["trash_at"]
    return ApiResponse(
        body={name: value for name, value in pseudo.items() if select is None or name in select}
    )


async def create_collection(call: ApiCall) -> ApiResponse:
    """Store a new collection."""
    select = check_select(call.params.get("select"), COLLECTIONS)
    attributes = _check_attributes(call, None)
    content = await read_content(call, attributes, None, read_splicing(call, attributes))
    record = generic.new_record(call, COLLECTIONS, {**attributes, **content})
    record["current_version_uuid"] = record["uuid"]
    if not attributes.get("storage_classes_desired"):
        record["storage_classes_desired"] = list(call.services.policy.default_storage_classes)
    _check_values(call.services.config, record, attributes)
    record |= generic.trash_times(
        call.services.clock, call.services.config, {**COLLECTIONS.defaults}, attributes
    )
    record |= {
        **await confirm_classes(call.services.clock, call.services.blocks, record),
        **_counted(attributes),
    }
    async with call.services.database.writing() as tx:
        await authorization.check_owner(tx, call, record["owner_uuid"])
        await dispatching.check_log(tx, call, record)
        await quotas.check_room(tx, call, record)
        await settle_name(tx, record, ensure=bool(call.params.get("ensure_unique_name")))
        await generic.insert(tx, call, COLLECTIONS, record)
    return await _shown(call, record, select)


async def update_collection(call: ApiCall) -> ApiResponse:
    """Change a collection."""
    select = check_select(call.params.get("select"), COLLECTIONS)
    if not (call.params.get("replace_files") or call.params.get("replace_segments")):
        return await _shown(call, await _update(call), select)
    # Changes of one collection wait for each other, else the one with the longest preparation
    # would lose every time. Other servers may still be faster.
    async with call.services.features[_LINES].setdefault(call.uuid, asyncio.Lock()):
        for _ in range(_ATTEMPTS):
            try:
                return await _shown(call, await _update(call), select)
            except _Outrun:
                # Another server changed the collection first: compute the change again.
                continue
    raise Conflict(f"{call.uuid}: others change its files all the time; try again")


async def _update(call: ApiCall) -> Record:
    services = call.services
    async with services.database.reading() as tx:
        base = await find_collection(tx, services.clock, services.config, call.uuid, call.caller)
        check_present(base)
        await authorization.check_writable(tx, COLLECTIONS, base, call.caller)
    check_match(call, base)
    attributes = _check_attributes(call, base)
    splicing = read_splicing(call, attributes)
    # Outside the write transaction: large manifests take long, and SQLite has one writer.
    content = await read_content(call, attributes, base, splicing)
    planned = {**base, **attributes, **content}
    confirmed = (
        await confirm_classes(services.clock, services.blocks, planned)
        if any(planned[name] != base[name] for name in _CONFIRMED_BY)
        else {}
    )
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, COLLECTIONS, call.uuid, call.caller
        )
        await authorization.check_writable(tx, COLLECTIONS, old, call.caller)
        if old["portable_data_hash"] != base["portable_data_hash"] and splicing:
            raise _Outrun
        check_match(call, old)
        new = {**old, **attributes, "portable_data_hash": old["portable_data_hash"], **content}
        new |= generic.trash_times(services.clock, services.config, old, attributes)
        new |= {
            name: value
            for name, value in confirmation_after_change(old, new).items()
            if name not in attributes
        }
        # Another call may have changed the content or the wish since it was confirmed.
        if confirmed and all(new[name] == planned[name] for name in _CONFIRMED_BY):
            new |= {name: value for name, value in confirmed.items() if name not in attributes}
        _check_values(services.config, new, attributes)
        await dispatching.check_log(tx, call, old, new)
        await quotas.check_room(tx, call, new, old)
        if new["owner_uuid"] != old["owner_uuid"]:
            await authorization.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
        await settle_name(tx, new, ensure=bool(call.params.get("ensure_unique_name")))
        return await change_collection(
            tx, services, old, new, attributes, user_uuid=call.caller.user_uuid
        )


async def delete_collection(call: ApiCall) -> ApiResponse:
    """Put a collection in the trash, to be deleted as soon as all signatures for its blocks have
    expired.
    """
    # Until then a client may still write or read blocks with signatures that it got from this
    # collection.
    return await _trash(call, lasting=call.services.config.Collections.BlobSigningTTL)


async def trash_collection(call: ApiCall) -> ApiResponse:
    """Put a collection in the trash."""
    return await _trash(call)


async def untrash_collection(call: ApiCall) -> ApiResponse:
    """Take a collection out of the trash."""
    services, now = call.services, call.services.clock.now()
    async with services.database.writing() as tx:
        old = await _writable(tx, call)
        if not is_trashed(old, now) or old["delete_at"] <= now:
            raise Invalid("Item is not trashed, cannot untrash")
        return await _moved(
            tx,
            call,
            old,
            {
                **old,
                **generic.trash_times(services.clock, services.config, old, {"is_trashed": False}),
            },
        )


async def _trash(call: ApiCall, *, lasting: float | None = None) -> ApiResponse:
    """Trash a collection; `lasting` is the most seconds until it is deleted."""
    services = call.services
    async with services.database.writing() as tx:
        old = await _writable(tx, call)
        new = {
            **old,
            **generic.trash_times(services.clock, services.config, old, {"is_trashed": True}),
        }
        if lasting is not None:
            new |= shortened(new, lasting)
        return await _moved(tx, call, old, new)


async def _writable(tx: Transaction, call: ApiCall) -> Record:
    old = await find_collection(
        tx, call.services.clock, call.services.config, call.uuid, call.caller, include_trash=True
    )
    check_present(old)
    await authorization.check_writable(tx, COLLECTIONS, old, call.caller)
    check_match(call, old)
    return old


async def _moved(tx: Transaction, call: ApiCall, old: Record, new: Record) -> ApiResponse:
    """Put a collection into the trash or take it out."""
    await settle_name(tx, new, ensure=bool(call.params.get("ensure_unique_name")))
    await quotas.check_room(tx, call, new, old)
    new = await change_collection(tx, call.services, old, new, {}, user_uuid=call.caller.user_uuid)
    return await _shown(call, new, check_select(call.params.get("select"), COLLECTIONS))


def _check_attributes(call: ApiCall, stored: Record | None) -> Record:
    """The attributes to store; an admin may store the numbers of copies. Raises Invalid."""
    sent = dict(call.attributes(COLLECTIONS))
    counted: Record = {}
    if call.caller.is_admin:
        for name in CONFIRMATION:
            if name in sent:
                counted[name] = attributes.convert(COLLECTIONS.by_name[name], sent.pop(name))
    return generic.check_attributes(call, COLLECTIONS, stored, sent) | counted


def _counted(attributes: Record) -> Record:
    return {name: attributes[name] for name in CONFIRMATION if name in attributes}


async def _shown(call: ApiCall, record: Record, select: tuple[str, ...] | None) -> ApiResponse:
    shown = show(COLLECTIONS, record, select)
    if "manifest_text" in shown:
        signed_text = await sign(
            call.services.clock,
            call.services.config,
            call.caller,
            record["manifest_text"],
            record["trash_at"],
        )
        shown["manifest_text"] = signed_text
    return ApiResponse(body=shown)


def _check_values(config: Config, record: Record, attributes: Record) -> None:
    name = record["name"] = record["name"] or None
    check_name(name, slashes=bool(config.Collections.ForwardSlashNameSubstitution))
    if attributes.get("storage_classes_desired") == []:
        raise Invalid("storage_classes_desired: cannot be empty")
    placement.check_names("storage_classes_desired", record["storage_classes_desired"])
    replication = record["replication_desired"]
    if replication is not None and replication < 0:
        raise Invalid("replication_desired: must not be negative")


async def settle_name(tx: Transaction, record: Record, *, ensure: bool) -> None:
    """Check that no other collection of the owner has this name; with `ensure` make the name
    distinct. Raises Invalid (422).
    """
    name = record["name"]
    if name is None or record["is_trashed"]:
        return
    if not await contents.names_taken(tx, record["owner_uuid"], [name], besides=record["uuid"]):
        return
    if not ensure:
        raise Invalid(
            "name: duplicate key value violates unique constraint: "
            f"Key (owner_uuid, name)=({record['owner_uuid']}, {name}) already exists"
        )
    record["name"] = distinct_name(name, record["uuid"])


async def find_collection(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    uuid: str,
    principal: Principal,
    *,
    include_trash: bool = False,
) -> Record:
    """A collection, or a past version of one, that the caller can read. Raises NotFound.

    Permissions are those of the present version: a user who can read it can read its past versions.
    """
    record = await records.get(tx, COLLECTIONS, uuid)
    if record is not None and collection_rules.is_past_version(record):
        present = record["current_version_uuid"]
        try:
            await authorization.find_readable(
                tx, clock, config, COLLECTIONS, present, principal, include_trash=include_trash
            )
        except NotFound:
            # The uuid of the present version is not for those who cannot read it.
            raise authorization.missing(COLLECTIONS, uuid) from None
        return record
    return await authorization.find_readable(
        tx, clock, config, COLLECTIONS, uuid, principal, include_trash=include_trash
    )


async def change_collection(
    tx: Transaction,
    services: ApiServices,
    old: Record,
    new: Record,
    attributes: Record,
    *,
    user_uuid: str,
) -> Record:
    """Change a collection, store its past version if that is to be kept, and update its past
    versions; the new record.

    `attributes` are the attributes that the caller named.
    """
    settings = services.config.Collections
    step = collection_rules.version_step(
        old,
        new,
        asked="preserve_version" in attributes,
        settings=VersionSettings(
            enabled=settings.CollectionVersioning, idle=settings.PreserveVersionIfIdle
        ),
        now=services.clock.now(),
        uuid=services.ids.new_uuid(Infix.COLLECTION),
    )
    changed = await generic.apply(tx, services, COLLECTIONS, old, step.record, user_uuid=user_uuid)
    shared = collection_rules.shared_changes(old, changed)
    if shared and old["version"] > 1:
        await contents.update_versions(tx, old["uuid"], shared)
    if step.past is not None:
        await records.insert(tx, COLLECTIONS, step.past)
    return changed


HANDLERS: Final = {
    "collections.list": list_collections,
    "collections.get": get_collection,
    "collections.create": create_collection,
    "collections.update": update_collection,
    "collections.delete": delete_collection,
    "collections.trash": trash_collection,
    "collections.untrash": untrash_collection,
}
