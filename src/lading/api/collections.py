"""Collections: manifests checked and signed, names kept unique, the trash (api-contract 5.3, 6.2, 6.5, 6.6).

Stored manifests carry no signatures; what is returned is signed for the token that asks. Admins may store unsigned
locators, everybody else proves with a signature that they could read the block. Past versions are not kept yet, and the
parameters that would splice files are refused, never ignored.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from lading.api import generic, guard
from lading.api.exchange import Answer, Call
from lading.api.services import Services
from lading.api.shape import show
from lading.core import access, ids, locator, manifest
from lading.core.access import Principal
from lading.core.errors import Forbidden, Invalid, LadingError, Malformed, NotFound
from lading.core.filters import Column, Compare, Either, Expression, check_select
from lading.core.groups import check_name
from lading.core.records import COLLECTIONS
from lading.core.schema import Record, Type
from lading.core.timestamps import parse_time
from lading.core.trash import Lifetimes, is_trashed, times
from lading.store import contents, records
from lading.store.database import Transaction

LARGE: Final = 1 << 18
_UNOFFERED: Final = ("replace_files", "replace_segments")
_PAGE_BYTES: Final = 128 << 20


def not_trashed(now: str) -> Expression:
    """The condition that a collection is not in the trash."""
    trash_at = Column("trash_at", Type.TIME)
    return Either((Compare(trash_at, "=", None), Compare(trash_at, ">", now)))


async def list_collections(call: Call) -> Answer:
    """A page of collections; manifests are signed when they are selected."""
    where = () if call.params.get("include_trash") else (not_trashed(call.services.now()),)
    query = generic.prepare_query(call, COLLECTIONS, where)
    if query.select is None or not {"manifest_text", "unsigned_manifest_text"} & set(query.select):
        return await generic.list_records(call, COLLECTIONS, where)
    answer = await generic.list_records(call, COLLECTIONS, where)
    kept: list[Record] = []
    size = 0
    for item in answer.body["items"]:
        text = item.get("manifest_text", item.get("unsigned_manifest_text", ""))
        size += len(text)
        if kept and size > _PAGE_BYTES:
            break
        if "manifest_text" in item:
            item["manifest_text"] = await sign(call.services, call.caller, text, item.get("trash_at"))
        kept.append(item)
    answer.body["items"] = kept
    return answer


async def get_collection(call: Call) -> Answer:
    """One collection by uuid, or by the hash of its content."""
    select = check_select(call.params.get("select"), COLLECTIONS)
    services, now = call.services, call.services.now()
    async with services.database.reading() as tx:
        if ids.is_uuid(call.uuid):
            trash = bool(call.params.get("include_trash"))
            record = await guard.find_readable(tx, services, COLLECTIONS, call.uuid, call.caller, include_trash=trash)
            if is_trashed(record, now) and not trash:
                raise NotFound(f"Path not found: collection {call.uuid} is in the trash")
            return await _shown(call, record, select)
        found = await find_content(tx, services, call.caller, call.uuid.partition("+A")[0])
    pseudo = {
        "uuid": found["portable_data_hash"],
        "portable_data_hash": found["portable_data_hash"],
        "manifest_text": await sign(services, call.caller, found["manifest_text"], found["trash_at"]),
    }
    if found["trash_at"] is not None:
        pseudo["trash_at"] = found["trash_at"]
    return Answer(body={name: value for name, value in pseudo.items() if select is None or name in select})


async def find_content(tx: Transaction, services: Services, principal: Principal, pdh: str) -> Record:
    """A readable collection outside the trash with this content; the one that stays longest. Raises NotFound."""
    parts = pdh.split("+")
    wanted = "+".join(parts[:2])
    if not ids.is_pdh(wanted):
        raise NotFound(f"Path not found: {pdh[:80]!r} is neither a uuid nor a portable data hash")
    now = services.now()
    where = (
        records.equals(COLLECTIONS, "portable_data_hash", wanted),
        not_trashed(now),
        *access.readable(COLLECTIONS, principal, now=now),
    )
    found = await records.find(tx, services.database.dialect, COLLECTIONS, where)
    if not found:
        raise NotFound(f"Path not found: no collection with content {wanted}")
    return max(found, key=lambda one: (one["trash_at"] is None, one["trash_at"] or ""))


async def create_collection(call: Call) -> Answer:
    """Store a new collection."""
    select = _checked(call)
    given = generic.check_attributes(call, COLLECTIONS, None)
    content = await _content(call, given)
    record = generic.new_record(call, COLLECTIONS, {**given, **content})
    record["current_version_uuid"] = record["uuid"]
    _check_values(call.services, record)
    record |= trash_times(call.services, {**COLLECTIONS.defaults}, given)
    async with call.services.database.writing() as tx:
        await guard.check_owner(tx, call, record["owner_uuid"])
        await settle_name(tx, record, ensure=bool(call.params.get("ensure_unique_name")))
        await generic.insert(tx, call, COLLECTIONS, record)
    return await _shown(call, record, select)


async def update_collection(call: Call) -> Answer:
    """Change a collection."""
    select = _checked(call)
    services = call.services
    content: Record | None = None
    async with services.database.reading() as tx:
        stored = await guard.find_readable(tx, services, COLLECTIONS, call.uuid, call.caller)
    given = generic.check_attributes(call, COLLECTIONS, stored)
    if "manifest_text" in given or "portable_data_hash" in given:
        content = await _content(call, given, stored)
    async with services.database.writing() as tx:
        old = await guard.find_readable(tx, services, COLLECTIONS, call.uuid, call.caller)
        await guard.check_writable(tx, COLLECTIONS, old, call.caller)
        new = {**old, **given, **(content or {})}
        new |= trash_times(services, old, given)
        _check_values(services, new)
        if new["owner_uuid"] != old["owner_uuid"]:
            await guard.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
        await settle_name(tx, new, ensure=bool(call.params.get("ensure_unique_name")))
        new = await generic.apply(tx, services, COLLECTIONS, old, new, user_uuid=call.caller.user_uuid)
    return await _shown(call, new, select)


async def trash_collection(call: Call) -> Answer:
    """Put a collection in the trash (DELETE and POST trash)."""
    return await _trash(call, {"is_trashed": True})


async def untrash_collection(call: Call) -> Answer:
    """Take a collection out of the trash."""
    return await _trash(call, {"is_trashed": False})


async def _trash(call: Call, given: Record) -> Answer:
    services = call.services
    async with services.database.writing() as tx:
        old = await guard.find_readable(tx, services, COLLECTIONS, call.uuid, call.caller)
        await guard.check_writable(tx, COLLECTIONS, old, call.caller)
        if not given["is_trashed"] and old["trash_at"] is None:
            raise Invalid("Item is not trashed, cannot untrash")
        new = {**old, **trash_times(services, old, given)}
        await settle_name(tx, new, ensure=bool(call.params.get("ensure_unique_name")))
        new = await generic.apply(tx, services, COLLECTIONS, old, new, user_uuid=call.caller.user_uuid)
    return await _shown(call, new, check_select(call.params.get("select"), COLLECTIONS))


def _checked(call: Call) -> tuple[str, ...] | None:
    for name in _UNOFFERED:
        if call.params.get(name):
            raise Invalid(f"{name}: is not offered yet; send the whole manifest_text")
    return check_select(call.params.get("select"), COLLECTIONS)


async def _content(call: Call, given: Record, stored: Record | None = None) -> Record:
    """The stored manifest and what follows from it."""
    text = given.get("manifest_text")
    if text is None:
        text = stored["manifest_text"] if stored else ""
        content: Record = {}
        if stored:
            content = {"manifest_text": text, "portable_data_hash": stored["portable_data_hash"]}
    else:
        content = {}
    if not content:
        if len(text) > LARGE:
            content = await asyncio.to_thread(_read_manifest, call.services, call.caller, text)
        else:
            content = _read_manifest(call.services, call.caller, text)
    sent = given.get("portable_data_hash")
    if sent and str(sent).partition("+")[0] != content["portable_data_hash"].partition("+")[0]:
        raise Invalid(f"Portable data hash '{sent}' does not match computed hash '{content['portable_data_hash']}'")
    return content


def _read_manifest(services: Services, principal: Principal, text: str) -> Record:
    settings = services.config.Collections
    try:
        files, size = manifest.counts(text)
        if settings.BlobSigning and not principal.is_admin:
            now = int(services.clock().timestamp())
            for one in dict.fromkeys(manifest.locators(text)):
                if not one.startswith(locator.EMPTY_BLOCK):
                    _verify(services, principal, one, now)
    except Malformed as error:
        raise Invalid(f"manifest_text: {error.message}") from None
    stored = manifest.strip_signatures(text)
    return {
        "manifest_text": stored,
        "portable_data_hash": manifest.portable_data_hash(stored),
        "file_count": files,
        "file_size_total": size,
    }


def _verify(services: Services, principal: Principal, one: str, now: int) -> None:
    settings = services.config.Collections
    try:
        locator.verify(
            one, token=principal.token, ttl=int(settings.BlobSigningTTL), key=settings.BlobSigningKey, now=now
        )
    except LadingError as error:
        raise Forbidden(f"Forbidden: manifest_text: {error.message}") from None


async def sign(services: Services, principal: Principal, text: str, trash_at: str | None) -> str:
    """The manifest signed for a token, until the signature's time or the trash, whichever is first."""
    if len(text) > LARGE:
        return await asyncio.to_thread(_sign, services, principal, text, trash_at)
    return _sign(services, principal, text, trash_at)


def _sign(services: Services, principal: Principal, text: str, trash_at: str | None) -> str:
    settings = services.config.Collections
    now = services.clock()
    expiry = now + timedelta(seconds=settings.BlobSigningTTL)
    if trash_at is not None:
        trashed = parse_time(trash_at)
        if trashed <= now:
            return text
        expiry = min(expiry, trashed)
    if not settings.BlobSigning or not settings.BlobSigningKey:
        return text
    until, ttl = int(expiry.timestamp()), int(settings.BlobSigningTTL)
    return manifest.sign(
        text,
        lambda one: locator.signed(one, token=principal.token, expiry=until, ttl=ttl, key=settings.BlobSigningKey),
    )


async def _shown(call: Call, record: Record, select: tuple[str, ...] | None) -> Answer:
    shown = show(COLLECTIONS, record, select)
    if "manifest_text" in shown:
        text = await sign(call.services, call.caller, record["manifest_text"], record["trash_at"])
        shown["manifest_text"] = text
    return Answer(body=shown)


def _check_values(services: Services, record: Record) -> None:
    name = record["name"] = record["name"] or None
    check_name(name, slashes=bool(services.config.Collections.ForwardSlashNameSubstitution))
    if record["preserve_version"]:
        raise Invalid("preserve_version: past versions are not kept yet; leave it false")
    wanted = record["storage_classes_desired"]
    if not wanted:
        raise Invalid("storage_classes_desired: cannot be empty")
    for one in wanted:
        if one not in services.policy.storage_classes:
            raise Invalid(f"storage_classes_desired: {one!r} is not a configured storage class")
    replication = record["replication_desired"]
    if replication is not None and replication < 0:
        raise Invalid("replication_desired: must not be negative")


def trash_times(services: Services, old: Record, given: Record) -> Record:
    """`trash_at`, `delete_at` and `is_trashed` after a write; nothing if it names none of them. Raises Invalid."""
    settings = services.config.Collections
    lifetimes = Lifetimes(usual=settings.DefaultTrashLifetime, least=settings.BlobSigningTTL)
    return times(old, given, now=services.now(), lifetimes=lifetimes)


async def settle_name(tx: Transaction, record: Record, *, ensure: bool) -> None:
    """See that no other collection of the owner has this name; change it if `ensure`, else Invalid (422)."""
    name = record["name"]
    if name is None or record["is_trashed"]:
        return
    if not await contents.name_taken(tx, record["owner_uuid"], name, besides=record["uuid"]):
        return
    if not ensure:
        raise Invalid(
            "name: duplicate key value violates unique constraint: "
            f"Key (owner_uuid, name)=({record['owner_uuid']}, {name}) already exists"
        )
    record["name"] = f"{name[:237]} ({record['uuid'][-15:]})"


HANDLERS: Final = {
    "collections.list": list_collections,
    "collections.get": get_collection,
    "collections.create": create_collection,
    "collections.update": update_collection,
    "collections.delete": trash_collection,
    "collections.trash": trash_collection,
    "collections.untrash": untrash_collection,
}
