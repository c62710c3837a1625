"""The first records: the system user, an admin, and the tokens that the installation made for them.

The dispatcher's token may do what `access.DISPATCHER_SCOPES` lists and nothing else; that of a data directory made by
an earlier release is corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lading.api import audit, generic
from lading.api.services import Services, hash_secret
from lading.core import access
from lading.core.records import TOKENS, USERS
from lading.core.schema import Record, RecordType
from lading.store import records
from lading.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Uuids and secrets of the admin's token and of the dispatcher's."""

    admin_uuid: str
    admin_token_uuid: str
    admin_secret: str = field(repr=False)
    dispatch_token_uuid: str
    dispatch_secret: str = field(repr=False)


async def bootstrap(services: Services, tokens: FirstTokens) -> None:
    """Make what is missing; what is there stays as it is, but for the scopes of the dispatcher's token."""
    system = services.system_user
    async with services.database.writing() as tx:
        await _ensure(tx, services, USERS, {"uuid": system, "username": "root", "first_name": "root", "is_admin": True})
        admin = {"uuid": tokens.admin_uuid, "username": "admin", "first_name": "admin", "is_admin": True}
        await _ensure(tx, services, USERS, admin)
        await _ensure(
            tx,
            services,
            TOKENS,
            {
                "uuid": tokens.admin_token_uuid,
                "owner_uuid": tokens.admin_uuid,
                "secret_hash": hash_secret(tokens.admin_secret),
            },
        )
        await _ensure(
            tx,
            services,
            TOKENS,
            {
                "uuid": tokens.dispatch_token_uuid,
                "secret_hash": hash_secret(tokens.dispatch_secret),
                "scopes": list(access.DISPATCHER_SCOPES),
            },
        )
        await _restrict(tx, services, tokens.dispatch_token_uuid)


async def _restrict(tx: Transaction, services: Services, uuid: str) -> None:
    old = await records.get(tx, TOKENS, uuid)
    if old is not None:
        changes: Record = {"scopes": list(access.DISPATCHER_SCOPES)}
        await generic.apply(tx, services, TOKENS, old, changes, user_uuid=services.system_user)


async def _ensure(tx: Transaction, services: Services, kind: RecordType, given: Record) -> None:
    if await records.get(tx, kind, given["uuid"]) is not None:
        return
    now, system = services.now(), services.system_user
    record = {
        **kind.defaults,
        "owner_uuid": system,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": system,
        **given,
    }
    await records.insert(tx, kind, record)
    await audit.created(tx, services, kind, record, user_uuid=system)
