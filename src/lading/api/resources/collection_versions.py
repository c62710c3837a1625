"""Past versions of collections: found, kept and brought in line, as `core.records.versions`
decides.

Source: docs/spec/api, section Collections.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.resources import generic
from lading.api.services import Services
from lading.core.ids import Infix
from lading.core.records import versions
from lading.core.records.access import Principal
from lading.core.records.filters import Expression
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.core.records.versions import Settings
from lading.core.records.visibility import Present
from lading.store import contents, records
from lading.store.database import Transaction

PRESENT: Final[Expression] = Present()


async def find(
    tx: Transaction,
    services: Services,
    uuid: str,
    principal: Principal,
    *,
    include_trash: bool = False,
) -> Record:
    """A collection, or a past version of one, that the caller can read. Raises NotFound.

    Whoever can read a collection can read its past versions: it is the one that was shared.
    """
    record = await records.get(tx, COLLECTIONS, uuid)
    if record is not None and versions.is_past(record):
        await authorization.find_readable(
            tx,
            services,
            COLLECTIONS,
            record["current_version_uuid"],
            principal,
            include_trash=include_trash,
        )
        return record
    return await authorization.find_readable(
        tx, services, COLLECTIONS, uuid, principal, include_trash=include_trash
    )


async def apply(
    tx: Transaction, services: Services, old: Record, new: Record, given: Record, *, user_uuid: str
) -> Record:
    """Change a collection, keep what it was if that is to be kept, and bring past versions in line;
    the new record.

    `given` are the attributes that the caller named.
    """
    settings = services.config.Collections
    step = versions.step(
        old,
        new,
        asked="preserve_version" in given,
        settings=Settings(
            enabled=settings.CollectionVersioning, idle=settings.PreserveVersionIfIdle
        ),
        now=services.now(),
        uuid=services.new_uuid(Infix.COLLECTION),
    )
    changed = await generic.apply(tx, services, COLLECTIONS, old, step.record, user_uuid=user_uuid)
    shared = versions.shared_changes(old, changed)
    if shared and old["version"] > 1:
        await contents.update_versions(tx, old["uuid"], shared)
    if step.past is not None:
        await records.insert(tx, COLLECTIONS, step.past)
    return changed
