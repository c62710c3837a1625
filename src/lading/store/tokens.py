"""Tokens and who holds them: the two look-ups that every request makes."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import msgspec

from lading.core.records import CONTAINERS
from lading.store import records
from lading.store.database import Transaction

_HOLDER = (
    "SELECT t.uuid, t.owner_uuid, t.secret_hash, t.scopes, t.expires_at, t.container_uuid, u.is_admin, u.is_active"
    " FROM api_client_authorizations t JOIN users u ON u.uuid = t.owner_uuid WHERE "
)
_ALL = '["all"]'
_RUNS = ("Locked", "Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A token and its user. `container_uuid` is set for the token of a container's supervisor."""

    uuid: str
    user_uuid: str
    scopes: tuple[str, ...]
    expires_at: str | None
    container_uuid: str | None
    is_admin: bool
    is_active: bool


async def holder(tx: Transaction, uuid: str, secret_hash: str) -> Holder | None:
    """The holder of the token with this uuid ("" if the client did not say) and hash of its secret."""
    if uuid:
        rows = await tx.fetch(_HOLDER + "t.uuid = ?", (uuid,))
    else:
        rows = await tx.fetch(_HOLDER + "t.secret_hash = ?", (secret_hash,))
    if not rows or not hmac.compare_digest(str(rows[0][2] or ""), secret_hash):
        return None
    found, user, _, scopes, expires_at, container_uuid, is_admin, is_active = rows[0]
    return Holder(
        uuid=str(found),
        user_uuid=str(user),
        scopes=("all",) if scopes in (None, _ALL) else tuple(msgspec.json.decode(str(scopes))),
        expires_at=None if expires_at is None else str(expires_at),
        container_uuid=None if container_uuid is None else str(container_uuid),
        is_admin=bool(is_admin),
        is_active=bool(is_active),
    )


async def container_of(tx: Transaction, token_uuid: str, named: str | None, *, runtime_token: str) -> str | None:
    """The container whose own token this is: by its `auth_uuid`, or the `named` one that runs with `runtime_token`."""
    rows = await tx.fetch("SELECT uuid FROM containers WHERE auth_uuid = ?", (token_uuid,))
    if rows or named is None:
        return str(rows[0][0]) if rows else None
    found = await records.get(tx, CONTAINERS, named)
    if found is None or found["state"] not in _RUNS or found["runtime_token"] is None:
        return None
    return named if hmac.compare_digest(found["runtime_token"].encode(), runtime_token.encode()) else None


async def expire(tx: Transaction, uuid: str, now: str) -> None:
    """Let a token end now, if it has not ended before."""
    await tx.execute(
        "UPDATE api_client_authorizations SET expires_at = ?, modified_at = ?"
        " WHERE uuid = ? AND (expires_at IS NULL OR expires_at > ?)",
        (now, now, uuid, now),
    )
