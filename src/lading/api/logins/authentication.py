"""Authentication: the principal of a token, and those for whom a call reads or acts beside it.

Secrets of tokens are compared by hash. Forms: `v2/uuid/secret`, `v2/uuid/secret/container`, and the
bare secret. The configured system root token acts as the system user. A request acts for the holder
of its runtime token, or else for the user who commits it.

Source: docs/spec/api, section Authentication.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import Identifiers, hash_secret
from lading.api.services import ApiServices
from lading.core import ids
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid, LadingError, Unauthenticated
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import USERS
from lading.core.records.schema import JSON, Record
from lading.net.acceptor import note_holder, note_known
from lading.store import records
from lading.store.database import Transaction
from lading.store.tokens import token_holder

# Further tokens of one request (`reader_tokens`) that count.
_MOST_READERS = 20
# Containers whose requests were made with each other's tokens.
_MOST_DERIVED = 20
AcceptToken: TypeAlias = Callable[[ApiServices, str], Awaitable[bool]]
ACCEPT_TOKEN: Final = FeatureKey[AcceptToken | None]("tokens of the provider", lambda: None)
"""Makes an access token of the provider a token of this server, and says whether it did; None where
none is accepted.
"""


def find_token(headers: Mapping[str, str], params: Mapping[str, JSON]) -> str:
    """The token that a request carries, or "": Authorization (Bearer, OAuth2, Basic password), or a
    parameter.
    """
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer" | "oauth2":
            return credentials.strip()
        case "basic":
            try:
                # The token is the password; the name before the colon is not looked at.
                return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
    token = params.get("api_token") or params.get("oauth_token")
    return token if isinstance(token, str) else ""


async def find_readers(services: ApiServices, params: Mapping[str, JSON]) -> tuple[Principal, ...]:
    """Further principals whose records a call may read: the holders of the valid tokens among the
    parameter `reader_tokens`.
    """
    sent = params.get("reader_tokens")
    tokens = sent if isinstance(sent, list) else [sent]
    readers: dict[str, Principal] = {}
    # Each costs a query, and it is the caller who chooses their number.
    for token in tokens[:_MOST_READERS]:
        try:
            principal = await authenticate(services, token) if isinstance(token, str) else None
        except Unauthenticated:
            # Further tokens that are not valid are ignored.
            continue
        # A dispatcher reads records for its own work alone.
        if principal is not None and not principal.is_dispatcher:
            readers.setdefault(principal.token_uuid, principal)
    return tuple(readers.values())


def nobody(services: ApiServices) -> Principal:
    """The anonymous user, who reads the records that are shared with the anonymous group."""
    config = services.config
    return Principal(
        user_uuid=ids.anonymous_user(config.ClusterID),
        token_uuid=ids.anonymous_token(config.ClusterID),
        token=config.Users.AnonymousUserToken,
        is_active=False,
        is_anonymous=True,
        scopes=("GET /",),
    )


def _split(token: str) -> tuple[str, str, str | None]:
    """Uuid, secret and container of `v2/UUID/SECRET[/CONTAINER]`; any other token is a secret."""
    match token.split("/"):
        case ["v2", uuid, secret]:
            return uuid, secret, None
        case ["v2", uuid, secret, container]:
            # Without its uuid a token acts for no container.
            return uuid, secret, container if uuid else None
    return "", token, None


async def authenticate(services: ApiServices, token: str) -> Principal | None:
    """The principal of a token, or None without a token. Raises Unauthenticated when it is not
    valid.
    """
    if not token:
        return None
    uuid, secret, named = _split(token)
    configured = _configured(services, token, secret)
    if configured is not None:
        return configured
    try:
        return await _stored_principal(services, token, uuid, secret, named)
    except Unauthenticated:
        accept = services.features[ACCEPT_TOKEN]
        if uuid or accept is None or not await accept(services, token):
            raise
    return await _stored_principal(services, token, uuid, secret, named)


def note_caller(scope: Mapping[str, Any], principal: Principal) -> None:
    """Note the caller of a request for the limits of connections. Raises Unavailable for a caller
    with too many connections in use.
    """
    if not principal.is_anonymous:
        note_known(scope)
    note_holder(scope, principal.connection_holder((scope.get("client") or ("",))[0]))


async def check_block_token(services: ApiServices, token: str, *, writing: bool) -> str:
    """Check that a token may read blocks, or write them; the name for which its connections count.
    Raises Unauthenticated, Forbidden.
    """
    principal = await authenticate(services, token)
    if principal is None:
        raise Unauthenticated
    access.check_blocks(principal, writing=writing)
    return "" if principal.is_anonymous else principal.connection_holder("")


async def find_user(services: ApiServices, token: str) -> str:
    """The name for which connections with a token count; "" for a token that is not valid."""
    try:
        principal = await authenticate(services, token)
    except LadingError:
        return ""
    is_known = principal is not None and not principal.is_anonymous
    return principal.connection_holder("") if principal is not None and is_known else ""


async def _stored_principal(
    services: ApiServices, token: str, uuid: str, secret: str, named: str | None
) -> Principal:
    """The principal of a stored token. Raises Unauthenticated."""
    async with services.database.reading() as tx:
        holder = await token_holder(tx, uuid, hash_secret(secret))
        # One answer for both: a caller who guesses learns nothing about past tokens.
        if holder is None or holder.has_expired(services.clock.now()):
            raise Unauthenticated("Not logged in: the token is unknown or has expired")
        if holder.is_derived and holder.own is not None:
            await _check_runtime_token(tx, services, holder.own)
        container = holder.own
    # A token that claims a container must not act as the user alone: its scopes were meant for that
    # container.
    if named is not None and container != named:
        raise Unauthenticated(
            "Not logged in: the token is not that of a container that is Locked or Running"
        )
    is_dispatcher = holder.is_admin and access.names_dispatching(holder.scopes)
    return Principal(
        user_uuid=holder.user_uuid,
        token_uuid=holder.uuid,
        token=token,
        # Dispatchers and supervisors have tokens of admins, and rights of their own.
        is_admin=holder.is_admin and not is_dispatcher and holder.supervises is None,
        is_active=holder.is_active,
        scopes=holder.scopes,
        container_uuid=container,
        supervises=holder.supervises,
        is_dispatcher=is_dispatcher,
    )


async def _check_runtime_token(tx: Transaction, services: ApiServices, container_uuid: str) -> None:
    """Check that the runtime token of a container is still valid: the container's own token has the
    rights of that one, and must not outlive it. Raises Unauthenticated.
    """
    own: str | None = container_uuid
    for _ in range(_MOST_DERIVED):
        row = await records.get(tx, CONTAINERS, own or "")
        token = row["runtime_token"] if row is not None else None
        if token is None:
            return
        uuid, secret, _ = _split(token)
        if _configured(services, token, secret) is not None:
            return
        holder = await token_holder(tx, uuid, hash_secret(secret))
        if holder is None or holder.has_expired(services.clock.now()):
            break
        if not holder.is_derived:
            return
        own = holder.own
    raise Unauthenticated("Not logged in: the runtime token of the container has ended")


def _configured(services: ApiServices, token: str, secret: str) -> Principal | None:
    """The principal of the anonymous or the system root token; None for another secret."""
    config = services.config
    anonymous, root = config.Users.AnonymousUserToken, config.SystemRootToken
    # In constant time: these two secrets are compared as text, not by their hash in an index.
    if anonymous and hmac.compare_digest(secret.encode(), anonymous.encode()):
        return nobody(services)
    if root and hmac.compare_digest(secret.encode(), root.encode()):
        return Principal(
            user_uuid=services.ids.system_user,
            token_uuid=ids.root_token(config.ClusterID),
            token=token,
            is_admin=True,
        )
    return None


async def acting_for(
    services: ApiServices, subject: ContainerRequest, principal: Principal
) -> Principal:
    """The principal whose rights count for inputs and image. Raises Invalid when the runtime token
    is not valid.
    """
    if subject.runtime_token is None:
        return principal
    try:
        found = await authenticate(services, subject.runtime_token)
    except Unauthenticated:
        found = None
    if found is None:
        raise Invalid("Runtime token failed validation")
    return found


async def committer(tx: Transaction, identifiers: Identifiers, row: Record) -> Principal:
    """The user who committed a stored request; an inactive principal if that user was deleted."""
    user = await records.get(tx, USERS, row["committed_by_uuid"] or row["owner_uuid"])
    return Principal(
        user_uuid=user["uuid"] if user else identifiers.system_user,
        token_uuid="",
        token="",
        is_admin=bool(user and user["is_admin"]),
        is_active=bool(user and user["is_active"]),
    )
