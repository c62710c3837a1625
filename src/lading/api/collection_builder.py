"""Collections that the server itself makes: the logs and outputs of requests, as
`core.containers.finalize` plans them.

The content is that of collections that are there already, so that no block is moved. If one is
missing, the collection is not made (docs/spec/api, section Retries and results).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lading.api.events import audit
from lading.api.resources.collections import distinct_name
from lading.api.services import Services
from lading.core.containers.finalize import LOG_DIRECTORY, CollectionPlan
from lading.core.data import manifest
from lading.core.data.manifest_assembly import are_apart, assemble
from lading.core.ids import Infix
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.core.timestamps import later
from lading.store import contents, records
from lading.store.database import Transaction

_Contents: TypeAlias = Mapping[str, tuple[str, int, int]]


async def keep(
    tx: Transaction, services: Services, plans: Sequence[CollectionPlan], *, user_uuid: str
) -> list[str | None]:
    """Make or renew the planned collections; the uuid of each, or None when its content is not
    there.
    """
    hashes = dict.fromkeys(piece.pdh for plan in plans for piece in plan.pieces)
    old = {
        row["uuid"]: row for row in await records.among(tx, COLLECTIONS, "uuid", _renewed(plans))
    }
    names = dict.fromkeys((plan.owner_uuid, plan.name) for plan in plans if plan.uuid not in old)
    known, taken = await contents.for_keeping(tx, hashes, names)
    kept: list[str | None] = []
    now = services.now()
    for plan in plans:
        former = old.get(plan.uuid or "")
        content = _content(plan, known, former["manifest_text"] if former else "")
        if content is None:
            kept.append(None)
        elif former is not None:
            kept.append(await _renew(tx, services, former, content, user_uuid))
        else:
            kept.append(await _make(tx, services, plan, content, taken, user_uuid, now))
    return kept


async def keep_one(
    tx: Transaction, services: Services, plan: CollectionPlan | None, *, user_uuid: str
) -> str | None:
    """Make or renew a collection, if one is planned; its uuid, or None when its content is not
    there.
    """
    return (await keep(tx, services, [plan], user_uuid=user_uuid))[0] if plan is not None else None


def _renewed(plans: Sequence[CollectionPlan]) -> list[str]:
    return [plan.uuid for plan in plans if plan.uuid]


async def _renew(
    tx: Transaction, services: Services, old: Record, content: Record, user_uuid: str
) -> str:
    if old["portable_data_hash"] != content["portable_data_hash"]:
        changes = {**content, "modified_at": services.now(), "modified_by_user_uuid": user_uuid}
        await records.change(tx, COLLECTIONS, old["uuid"], changes, expected={})
        await audit.changed(tx, services, COLLECTIONS, old, {**old, **changes}, user_uuid=user_uuid)
    return str(old["uuid"])


async def _make(
    tx: Transaction,
    services: Services,
    plan: CollectionPlan,
    content: Record,
    taken: set[tuple[str, str]],
    user_uuid: str,
    now: str,
) -> str:
    uuid = services.new_uuid(Infix.COLLECTION)
    free = (plan.owner_uuid, plan.name) not in taken
    record: Record = {
        **COLLECTIONS.defaults,
        **content,
        "uuid": uuid,
        "current_version_uuid": uuid,
        "owner_uuid": plan.owner_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user_uuid,
        "name": plan.name if free else distinct_name(plan.name, uuid),
        "properties": plan.properties,
        "storage_classes_desired": plan.storage_classes or ["default"],
    }
    taken.add((plan.owner_uuid, plan.name))
    if plan.trash_at is not None:
        delete_at = max(plan.trash_at, later(now, services.config.Collections.BlobSigningTTL))
        record |= {"trash_at": plan.trash_at, "delete_at": delete_at}
    await records.add(tx, COLLECTIONS, record)
    await audit.created(tx, services, COLLECTIONS, record, user_uuid=user_uuid)
    return uuid


def _content(plan: CollectionPlan, known: _Contents, existing: str) -> Record | None:
    if any(piece.pdh not in known for piece in plan.pieces):
        return None
    pieces = [(known[piece.pdh][0], piece.directory) for piece in plan.pieces]
    if not existing and len(pieces) == 1 and not pieces[0][1]:
        text, files, size = known[plan.pieces[0].pdh]
        return {
            "manifest_text": text,
            "portable_data_hash": plan.pieces[0].pdh,
            "file_count": files,
            "file_size_total": size,
        }
    text = assemble(existing, pieces, keep=LOG_DIRECTORY)
    if not existing and are_apart(pieces, below=LOG_DIRECTORY):
        parts = [known[piece.pdh] for piece in plan.pieces]
        files, size = manifest.check_total(
            sum(part[1] for part in parts), sum(part[2] for part in parts)
        )
    else:
        files, size = manifest.counts(text)
    return {
        "manifest_text": text,
        "portable_data_hash": manifest.portable_data_hash(text),
        "file_count": files,
        "file_size_total": size,
    }
