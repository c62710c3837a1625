"""The look-up of a token and its user, made for every request."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import msgspec

from lading.core.records.record_types import CONTAINERS
from lading.store import records
from lading.store.database import Transaction

_HOLDER = (
    "SELECT t.uuid, t.owner_uuid, t.secret_hash, t.scopes, t.expires_at, t.container_uuid,"
    " u.is_admin, u.is_active, (SELECT c.uuid FROM containers c WHERE c.auth_uuid = t.uuid)"
    " FROM api_client_authorizations t JOIN users u ON u.uuid = t.owner_uuid WHERE "
)
# Stored form of the scopes of nearly all tokens, so that they need no decoding.
_ALL = '["all"]'
_RUNS = ("Locked", "Running")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHolder:
    """A token and its user.

    `supervises` is the container of a supervisor's token, `own` the container of a container's own
    token.
    """

    uuid: str
    user_uuid: str
    scopes: tuple[str, ...]
    expires_at: str | None
    supervises: str | None
    own: str | None
    is_admin: bool
    is_active: bool

    def has_expired(self, now: str) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


async def holder(tx: Transaction, uuid: str, secret_hash: str) -> TokenHolder | None:
    """The holder of the token with this uuid ("" if the client sent none) and this hash of its
    secret.
    """
    if uuid:
        rows = await tx.fetch(_HOLDER + "t.uuid = ?", (uuid,))
    else:
        rows = await tx.fetch(_HOLDER + "t.secret_hash = ?", (secret_hash,))
    # In constant time: the comparison must not tell how many characters are right.
    if not rows or not hmac.compare_digest(str(rows[0][2] or ""), secret_hash):
        return None
    found, user, _, scopes, expires_at, supervises, is_admin, is_active, own = rows[0]
    return TokenHolder(
        uuid=str(found),
        user_uuid=str(user),
        scopes=("all",) if scopes in (None, _ALL) else tuple(msgspec.json.decode(str(scopes))),
        expires_at=None if expires_at is None else str(expires_at),
        supervises=None if supervises is None else str(supervises),
        own=None if own is None else str(own),
        is_admin=bool(is_admin),
        is_active=bool(is_active),
    )


async def runs_with(tx: Transaction, container_uuid: str, runtime_token: str) -> bool:
    """Whether a container is Locked or Running with this token as its `runtime_token`."""
    found = await records.get(tx, CONTAINERS, container_uuid)
    if found is None or found["state"] not in _RUNS or found["runtime_token"] is None:
        return False
    return hmac.compare_digest(found["runtime_token"].encode(), runtime_token.encode())


async def expire(tx: Transaction, uuid: str, now: str) -> None:
    """Expire a token now unless it has expired already."""
    await tx.execute(
        "UPDATE api_client_authorizations SET expires_at = ?, modified_at = ?"
        " WHERE uuid = ? AND (expires_at IS NULL OR expires_at > ?)",
        (now, now, uuid, now),
    )
