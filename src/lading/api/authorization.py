"""Authentication and authorization: the principal of a token, and the permissions of the principal.

A record that the caller cannot read does not exist (404); one that can be read but not written is
Forbidden (403); an owner or a reference that cannot be read is Invalid (422). In a frozen project
nobody writes. The check is made in the transaction that acts on the record.

Secrets of tokens are compared by hash. Forms: `v2/uuid/secret`, `v2/uuid/secret/container`, and the
bare secret. The configured system root token acts as the system user. A request acts for the holder
of its runtime token, or else for the user who commits it.

Source: docs/spec/api, sections Authentication, Records, Permissions and Resolving and reuse.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from lading.api.http import ApiCall
from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import ApiClock, Identifiers, hash_secret
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core import ids
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.core.ids import is_group
from lading.core.records import access
from lading.core.records import permissions as group_rules
from lading.core.records.access import Principal
from lading.core.records.expressions import Among, Column, Query
from lading.core.records.permissions import NAMES, GroupClass, Level, check_acyclic
from lading.core.records.record_types import (
    BY_INFIX,
    COLLECTIONS,
    CONTAINERS,
    GROUPS,
    LINKS,
    LOGS,
    TOKENS,
    USERS,
)
from lading.core.records.schema import JSON, Record, RecordType, Type
from lading.core.records.service_records import WEBHOOKS
from lading.net.acceptor import note_holder, note_known
from lading.store import contents, permission_queries, permissions, records
from lading.store.database import Transaction

# Uuids of one query: placeholders of one statement.
_BATCH = 500
_BY_CONDITION = (CONTAINERS, LINKS, LOGS, USERS, GROUPS, WEBHOOKS)


async def find_readable(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    uuid: str,
    principal: Principal,
    *,
    include_trash: bool = False,
    raw: bool = False,
) -> Record:
    """The record, if the caller can read it and it is in no project in the trash. Raises NotFound.

    With `raw` its nested values are JSON texts, to be answered unchanged.
    """
    roles = config.Users.RoleGroupsVisibleToAll
    conditions = access.readable(
        kind,
        principal,
        now=clock.now(),
        include_trash=include_trash,
        roles=roles,
        few=True,
    )
    where = (records.equals(kind, "uuid", uuid), *conditions)
    found = await records.find(tx, tx.dialect, kind, where, limit=1, raw=raw)
    if not found:
        raise missing(kind, uuid)
    return found[0]


def missing(kind: RecordType, uuid: str) -> NotFound:
    """The error for a record that is not there, or that the caller cannot read."""
    return NotFound(f"Path not found: no {kind.singular} {uuid[:60]!r}")


async def can_read(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool = False,
) -> bool:
    """Whether the caller, or one of the readers beside it, can read a record that exists."""
    for one in principal.everybody if principal.readers else (principal,):
        if await _can_read(tx, clock, config, kind, record, one, include_trash=include_trash):
            return True
    return False


async def _can_read(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool,
) -> bool:
    if not await _is_present(tx, clock, kind, record, principal, include_trash=include_trash):
        return False
    user = principal.user_uuid
    if principal.is_admin or (kind is USERS and record["uuid"] == user):
        return True
    # The system user owns containers, and may own the token of a dispatcher.
    if kind.owned and record["owner_uuid"] == user and kind is not CONTAINERS:
        return True
    # A token is its owner's alone: no permission on a project or a role shows one.
    if kind is TOKENS:
        return False
    if kind not in _BY_CONDITION:
        return await permission_queries.level_on(tx, user, record["uuid"], record["owner_uuid"]) > 0
    roles = config.Users.RoleGroupsVisibleToAll
    conditions = access.readable(kind, principal, now=clock.now(), include_trash=True, roles=roles)
    # The rules of these kinds are conditions in SQL: they are asked of the one record.
    where = (records.equals(kind, "uuid", record["uuid"]), *conditions)
    return await records.exists(tx, tx.dialect, kind, where)


async def present(
    tx: Transaction, clock: ApiClock, hashes: Iterable[str], acting: Principal
) -> set[str]:
    """The hashes of which the principal can read the content."""
    reader = reader_of(acting)
    wanted = sorted({one for one in hashes if ids.is_pdh(one)})
    return await contents.present(tx, wanted, clock.now(), reader=reader)


async def readable_uuids(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    kind: RecordType,
    uuids: Iterable[str],
    principal: Principal,
) -> set[str]:
    """The uuids among `uuids` of records of a type that the principal can read."""
    wanted, found = tuple(dict.fromkeys(uuids)), set[str]()
    roles = config.Users.RoleGroupsVisibleToAll
    readable = access.readable(kind, principal, now=clock.now(), roles=roles, few=True)
    for at in range(0, len(wanted), _BATCH):
        some = Among(Column("uuid", Type.STRING), wanted[at : at + _BATCH])
        query = Query(where=(some, *readable), select=("uuid",), limit=_BATCH)
        rows = await records.search(tx, tx.dialect, kind, query)
        found |= {str(row["uuid"]) for row in rows}
    return found


def reader_of(acting: Principal) -> str | None:
    """The user whose rights count; None for administrators, who read everything."""
    return None if acting.is_admin else acting.user_uuid


async def check_content_scope(
    tx: Transaction,
    clock: ApiClock,
    principal: Principal,
    pdh: str,
    what: str,
    *,
    uuid: str = "",
) -> None:
    """Check that the scopes of the token include a GET of this content, by its hash or by the uuid
    of a readable collection.

    `uuid` is a collection that is known to be readable and to have the content. Raises Forbidden
    naming `what`, the attribute that asked for the content, whether the content exists or not.
    """
    if access.covers_get(principal, COLLECTIONS, pdh, *([uuid] if uuid else [])):
        return
    where = (
        records.equals(COLLECTIONS, "portable_data_hash", pdh),
        *access.readable(COLLECTIONS, principal, now=clock.now()),
    )
    found = await records.find(tx, tx.dialect, COLLECTIONS, where)
    if not any(access.covers_get(principal, COLLECTIONS, one["uuid"]) for one in found):
        raise Forbidden(
            f"Forbidden: {what}: the scopes of this token do not include "
            f"GET /arvados/v1/collections/{uuid or pdh}"
        )


async def can_refer(
    tx: Transaction, clock: ApiClock, config: Config, uuid: JSON, principal: Principal
) -> bool:
    """Whether a record may refer to another one: the caller can read that one, and it is not in the
    trash.
    """
    kind = BY_INFIX.get(ids.infix_of(uuid)) if isinstance(uuid, str) and ids.is_uuid(uuid) else None
    if kind is None or not kind.stored:
        return False
    record = await records.get(tx, kind, uuid)
    return record is not None and await can_read(tx, clock, config, kind, record, principal)


async def check_writable(
    tx: Transaction,
    kind: RecordType,
    record: Record,
    principal: Principal,
    level: Level = Level.WRITE,
) -> None:
    """Check that the caller may change a record that it can read. Raises Forbidden."""
    place = record["uuid"] if kind is GROUPS else record["owner_uuid"]
    # Before the level: also an admin must unfreeze a project first.
    if is_group(place) and (await permissions.group_flags(tx, place)).frozen:
        raise group_rules.frozen_refusal(record["uuid"])
    if await level_of(tx, kind, record, principal) < level:
        raise lacking(record["uuid"], level)


def lacking(uuid: str, level: Level) -> Forbidden:
    """The error for a caller without a permission level on a record."""
    return Forbidden(f"Forbidden: {uuid}: you lack {NAMES[level]}; ask a user who manages it")


async def level_of(tx: Transaction, kind: RecordType, record: Record, principal: Principal) -> int:
    """The caller's level on a record."""
    user = principal.user_uuid
    if (
        principal.is_admin
        or record["owner_uuid"] == user
        or (kind is USERS and record["uuid"] == user)
    ):
        return Level.MANAGE
    return await permission_queries.level_on(tx, user, record["uuid"], record["owner_uuid"])


async def check_owner(
    tx: Transaction, call: ApiCall, owner_uuid: JSON, *, old: str | None = None
) -> None:
    """Check that the caller may make `owner_uuid` the owner of a record, whose owner is `old` if it
    has one.

    Raises Invalid when it is no user or project that the caller can read, Forbidden without
    can_write on both.
    """
    caller = call.caller
    if old is not None and not caller.is_admin and old != caller.user_uuid:
        # Both ends of a move: what is taken from an owner is lost to those who read it there.
        await _check_level(tx, caller, old)
    await check_owner_for(tx, call.services.clock, call.services.config, caller, owner_uuid)


async def check_owner_for(
    tx: Transaction, clock: ApiClock, config: Config, caller: Principal, owner_uuid: JSON
) -> None:
    """Check that `principal`, not the caller itself, may give a record to an owner; see
    `check_owner`.
    """
    if owner_uuid == caller.user_uuid:
        return
    kind = (
        BY_INFIX.get(ids.infix_of(owner_uuid))
        if isinstance(owner_uuid, str) and ids.is_uuid(owner_uuid)
        else None
    )
    if kind not in (USERS, GROUPS):
        raise Invalid(
            f"owner_uuid: {str(owner_uuid)[:60]!r} is not the uuid of a user or a project"
        )
    try:
        owner = await find_readable(tx, clock, config, kind, owner_uuid, caller)
    except NotFound:
        # The same words for what is not there and for what may not be read.
        raise Invalid(f"owner_uuid: '{owner_uuid}' not found") from None
    if kind is GROUPS:
        await _check_project(tx, owner)
    if not caller.is_admin:
        await _check_level(tx, caller, owner_uuid)


async def _check_project(tx: Transaction, owner: Record) -> None:
    uuid = owner["uuid"]
    if owner["group_class"] != GroupClass.PROJECT:
        raise Invalid(
            f"owner_uuid: {uuid} is a {owner['group_class']} group, which cannot own anything"
        )
    if (await permissions.group_flags(tx, uuid)).frozen:
        raise group_rules.frozen_refusal(uuid)


async def check_move(tx: Transaction, call: ApiCall, group: Record, owner_uuid: str) -> None:
    """Check that a group may move to another owner. Raises Invalid when it would own itself, and as
    `check_owner`.
    """
    await check_owner(tx, call, owner_uuid, old=group["owner_uuid"])
    check_acyclic(group["uuid"], await permission_queries.owners_above(tx, owner_uuid))


async def _check_level(tx: Transaction, principal: Principal, owner_uuid: str) -> None:
    if await permission_queries.level_in(tx, principal.user_uuid, owner_uuid) < Level.WRITE:
        raise Forbidden(f"Forbidden: owner_uuid: you may not write records of {owner_uuid}")


async def _is_present(
    tx: Transaction,
    clock: ApiClock,
    kind: RecordType,
    record: Record,
    principal: Principal,
    *,
    include_trash: bool,
) -> bool:
    """Whether the record is in no project in the trash, or the call includes trashed records."""
    place = record["uuid"] if kind is GROUPS else record["owner_uuid"]
    if place == principal.user_uuid or not is_group(place):
        return True
    flags = await permissions.group_flags(tx, place)
    if flags.trash_at is None or flags.trash_at > clock.now():
        return True
    # A frozen project in the trash is shown to admins alone, who can restore it.
    return include_trash and (principal.is_admin or not flags.frozen)


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
                # The token is the password; the name before the colon is not looked at.
                return base64.b64decode(rest, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return ""
    token = params.get("api_token") or params.get("oauth_token")
    return token if isinstance(token, str) else ""


async def find_readers(services: ApiServices, params: Mapping[str, JSON]) -> tuple[Principal, ...]:
    """Further principals whose records a call may read: the holders of the valid tokens among the
    parameter `reader_tokens`.
    """
    given = params.get("reader_tokens")
    tokens = given if isinstance(given, list) else [given]
    found: dict[str, Principal] = {}
    # Each costs a query, and it is the caller who chooses their number.
    for token in tokens[:_MOST_READERS]:
        try:
            one = await authenticate(services, token) if isinstance(token, str) else None
        except Unauthenticated:
            # Further tokens that are not valid are ignored.
            continue
        # A dispatcher reads records for its own work alone.
        if one is not None and not one.is_dispatcher:
            found.setdefault(one.token_uuid, one)
    return tuple(found.values())


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
        return await _known(services, token, uuid, secret, named)
    except Unauthenticated:
        accept = services.features[ACCEPT_TOKEN]
        if uuid or accept is None or not await accept(services, token):
            raise
    return await _known(services, token, uuid, secret, named)


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


async def _known(
    services: ApiServices, token: str, uuid: str, secret: str, named: str | None
) -> Principal:
    """The principal of a stored token. Raises Unauthenticated."""
    async with services.database.reading() as tx:
        holder = await records.token_holder(tx, uuid, hash_secret(secret))
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


# Containers whose requests were made with each other's tokens.
_MOST_DERIVED = 20


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
        holder = await records.token_holder(tx, uuid, hash_secret(secret))
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


AcceptToken: TypeAlias = Callable[[ApiServices, str], Awaitable[bool]]

ACCEPT_TOKEN: Final = FeatureKey[AcceptToken | None]("tokens of the provider", lambda: None)
"""Makes an access token of the provider a token of this server, and says whether it did; None where
none is accepted.
"""
