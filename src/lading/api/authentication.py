"""From a token to its principal, and the principal for whom a request acts.

Source: docs/spec/api, sections Authentication and Resolving and reuse. Secrets are compared by
hash. Forms: `v2/uuid/secret`, `v2/uuid/secret/container`, and the bare secret. The configured
system root token acts as the system user. A request acts for the holder of its runtime token, or
else for the user who commits it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

from lading.api.services import ApiServices, hash_secret
from lading.core import ids
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid, Unauthenticated
from lading.core.records.access import Principal
from lading.core.records.record_types import USERS
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.store import tokens as stored
from lading.store.database import Transaction

# Further tokens of one request (`reader_tokens`) that count.
_MOST_READERS = 20


def find_token(headers: Mapping[str, str], params: Mapping[str, JSON]) -> str:
    """The token that a request carries, or "": Authorization (Bearer, OAuth2, Basic password), or a
    parameter.
    """
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer" | "oauth2":
            return rest.strip()
        case "basic":
            try:
                return base64.b64decode(rest, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
    token = params.get("api_token") or params.get("oauth_token")
    return token if isinstance(token, str) else ""


async def find_readers(services: ApiServices, params: Mapping[str, JSON]) -> tuple[Principal, ...]:
    """Who else a call reads for: the holders of the valid tokens among the parameter
    `reader_tokens`.
    """
    given = params.get("reader_tokens")
    tokens = given if isinstance(given, list) else [given]
    found: dict[str, Principal] = {}
    for token in tokens[:_MOST_READERS]:
        try:
            one = await authenticate(services, token) if isinstance(token, str) else None
        except Unauthenticated:
            # Further tokens that are not valid are ignored.
            continue
        if one is not None:
            found.setdefault(one.token_uuid, one)
    return tuple(found.values())


def nobody(services: ApiServices) -> Principal:
    """The anonymous user, who reads what was shared with the anonymous group."""
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
    """Who holds this token; None when there is no token. Raises Unauthenticated when it is not
    valid.
    """
    if not token:
        return None
    uuid, secret, named = _split(token)
    configured = _configured(services, token, secret)
    if configured is not None:
        return configured
    async with services.database.reading() as tx:
        holder = await stored.holder(tx, uuid, hash_secret(secret))
        if holder is None or holder.has_expired(services.now()):
            raise Unauthenticated("Not logged in: the token is unknown or has expired")
        container = holder.own
        if container is None and named is not None:
            # A runtime token acts for the container that the client names behind it.
            runs = await stored.runs_with(tx, named, f"v2/{uuid}/{secret}")
            container = named if runs else None
    if named is not None and container != named:
        raise Unauthenticated(
            "Not logged in: the token is not that of a container that is Locked or Running"
        )
    return Principal(
        user_uuid=holder.user_uuid,
        token_uuid=holder.uuid,
        token=token,
        is_admin=holder.is_admin,
        is_active=holder.is_active,
        scopes=holder.scopes,
        container_uuid=container,
        supervises=holder.supervises,
    )


def _configured(services: ApiServices, token: str, secret: str) -> Principal | None:
    """The principal of the anonymous or the system root token; None for another secret."""
    config = services.config
    anonymous, root = config.Users.AnonymousUserToken, config.SystemRootToken
    if anonymous and hmac.compare_digest(secret.encode(), anonymous.encode()):
        return nobody(services)
    if root and hmac.compare_digest(secret.encode(), root.encode()):
        return Principal(
            user_uuid=services.system_user,
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


async def committer(tx: Transaction, services: ApiServices, row: Record) -> Principal:
    """The user who committed a stored request; an inactive principal if that user was deleted."""
    user = await records.get(tx, USERS, row["committed_by_uuid"] or row["owner_uuid"])
    return Principal(
        user_uuid=user["uuid"] if user else services.system_user,
        token_uuid="",
        token="",
        is_admin=bool(user and user["is_admin"]),
        is_active=bool(user and user["is_active"]),
    )
