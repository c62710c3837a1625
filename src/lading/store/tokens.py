"""Looks up a token with its user, for every call, and expires tokens."""

# ruff: noqa: S608 - names are constants of this module, values go into placeholders

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lading.store.database import Deferred, Transaction

_HOLDER = (
    "SELECT t.uuid, t.owner_uuid, t.secret_hash, t.scopes, t.expires_at, t.container_uuid,"
    " u.is_admin, u.is_active, (SELECT c.uuid FROM containers c WHERE c.auth_uuid = t.uuid),"
    " EXISTS (SELECT 1 FROM containers c"
    " WHERE c.auth_uuid = t.uuid AND c.runtime_token IS NOT NULL)"
    " FROM api_client_authorizations t JOIN users u ON u.uuid = t.owner_uuid WHERE "
)
# Stored form of the scopes of nearly all tokens, so that they need no decoding.
_ALL = '["all"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHolder:
    """A token and its user.

    `supervises` is the container of a supervisor's token, `own` the container of a container's own
    token; `is_derived`: the request of that container brought a runtime token.
    """

    uuid: str
    user_uuid: str
    scopes: tuple[str, ...]
    expires_at: str | None
    supervises: str | None
    own: str | None
    is_admin: bool
    is_active: bool
    is_derived: bool

    def has_expired(self, now: str) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


async def token_holder(tx: Transaction, uuid: str, secret_hash: str) -> TokenHolder | None:
    """The holder of the token with this uuid ("" if the client sent none) and this hash of its
    secret.
    """
    if uuid:
        rows = await tx.fetch(_HOLDER + "t.uuid = ?", (uuid,))
    else:
        rows = await tx.fetch(_HOLDER + "t.secret_hash = ?", (secret_hash,))
    # In constant time: the duration must not reveal how many characters are right.
    if not rows or not hmac.compare_digest(str(rows[0][2] or ""), secret_hash):
        return None
    found, user, _, scopes, expires_at, supervises, is_admin, is_active, own, derived = rows[0]
    return TokenHolder(
        uuid=str(found),
        user_uuid=str(user),
        scopes=("all",) if scopes in (None, _ALL) else tuple(msgspec.json.decode(str(scopes))),
        expires_at=None if expires_at is None else str(expires_at),
        supervises=None if supervises is None else str(supervises),
        own=None if own is None else str(own),
        is_admin=bool(is_admin),
        is_active=bool(is_active),
        is_derived=bool(derived),
    )


async def expire_tokens(tx: Transaction, uuids: Sequence[str], now: str) -> None:
    """Expire tokens, at least one, now unless they have expired already; deferred."""
    sql = (
        "UPDATE api_client_authorizations SET expires_at = ?, modified_at = ?"
        f" WHERE uuid IN ({', '.join('?' for _ in uuids)})"
        " AND (expires_at IS NULL OR expires_at > ?)"
    )
    table = "api_client_authorizations"
    await tx.defer(
        Deferred(
            sql=sql, values=(now, now, *uuids, now), row=f"{table} {' '.join(uuids)}", reads=table
        )
    )
