"""Collections that the server itself makes: the logs and outputs of requests, as `core.finalise` plans them.

The content is that of collections that are there already, so that no block is moved. If one is missing, the collection
is not made (api-contract 1.11).
"""

from __future__ import annotations

from datetime import timedelta

from lading.api import audit
from lading.api.collections import settle_name
from lading.api.services import Services
from lading.core import manifest
from lading.core.assemble import assemble
from lading.core.finalise import LOG_DIRECTORY, CollectionPlan
from lading.core.ids import Infix
from lading.core.records import COLLECTIONS
from lading.core.schema import Record
from lading.core.timestamps import format_time, parse_time
from lading.store import contents, records
from lading.store.database import Transaction


async def keep(tx: Transaction, services: Services, plan: CollectionPlan, *, user_uuid: str) -> str | None:
    """Make or renew the planned collection; its uuid, or None when its content is not there."""
    old = await records.get(tx, COLLECTIONS, plan.uuid) if plan.uuid else None
    content = await _content(tx, plan, old["manifest_text"] if old else "")
    if content is None:
        return None
    now = services.now()
    common = {"modified_at": now, "modified_by_user_uuid": user_uuid}
    if old is not None:
        if old["portable_data_hash"] == content["portable_data_hash"]:
            return str(old["uuid"])
        new = {**old, **content, **common}
        await records.update(tx, COLLECTIONS, old["uuid"], {**content, **common})
        await audit.changed(tx, services, COLLECTIONS, old, new, user_uuid=user_uuid)
        return str(old["uuid"])
    uuid = services.new_uuid(Infix.COLLECTION)
    record: Record = {
        **COLLECTIONS.defaults,
        **content,
        **common,
        "uuid": uuid,
        "current_version_uuid": uuid,
        "owner_uuid": plan.owner_uuid,
        "created_at": now,
        "name": plan.name,
        "properties": plan.properties,
        "storage_classes_desired": plan.storage_classes or ["default"],
    }
    if plan.trash_at is not None:
        ttl = timedelta(seconds=services.config.Collections.BlobSigningTTL)
        delete_at = max(plan.trash_at, format_time(parse_time(now) + ttl))
        record |= {"trash_at": plan.trash_at, "delete_at": delete_at}
    await settle_name(tx, record, ensure=True)
    await records.insert(tx, COLLECTIONS, record)
    await audit.created(tx, services, COLLECTIONS, record, user_uuid=user_uuid)
    return uuid


async def _content(tx: Transaction, plan: CollectionPlan, existing: str) -> Record | None:
    pieces: list[tuple[str, str]] = []
    facts = (0, 0)
    for piece in plan.pieces:
        found = await contents.manifest_of(tx, piece.pdh)
        if found is None:
            return None
        pieces.append((found[0], piece.directory))
        facts = found[1:]
    if not existing and len(pieces) == 1 and not pieces[0][1]:
        return {
            "manifest_text": pieces[0][0],
            "portable_data_hash": plan.pieces[0].pdh,
            "file_count": facts[0],
            "file_size_total": facts[1],
        }
    text = assemble(existing, pieces, keep=LOG_DIRECTORY)
    files, size = manifest.counts(text)
    return {
        "manifest_text": text,
        "portable_data_hash": manifest.portable_data_hash(text),
        "file_count": files,
        "file_size_total": size,
    }
