"""Access control: the principal behind a token, its scopes, and its rights to read and write.

Source: docs/spec/api, sections Authentication and Permissions. Admins may do everything within the
scopes of their token, except in the trash and in frozen projects; other users read records on which
`permissions` gives them a level. A container is readable through a request that points at it, a log
row by those who can read the records of the place in which its object was then, a token by its user
only, a webhook by managers of its owner. A permission link is readable by the users at its ends and
by managers of its head; of other users the active ones are visible, with the attributes in
`PUBLIC`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lading.core.errors import Forbidden
from lading.core.records.container_types import CONTAINERS
from lading.core.records.expressions import (
    All,
    Column,
    Compare,
    Constant,
    Either,
    Expression,
    Not,
    OfContainer,
    SortKey,
)
from lading.core.records.log_rows import LogRowType
from lading.core.records.permissions import (
    CONTAINER_ACCESS,
    About,
    Accessible,
    FormerPlace,
    Level,
    ManagedHead,
    NamesImage,
    Reachable,
    Requested,
    Untrashed,
)
from lading.core.records.record_types import GROUPS, LINKS, LOGS, TOKENS, USERS
from lading.core.records.schema import RecordType, Type
from lading.core.records.service_records import KEEP_SERVICES, WEBHOOKS

ALL_SCOPES: Final = ("all",)
DISPATCHER_SCOPES: Final = (
    "GET /arvados/v1/containers",
    "GET /arvados/v1/containers/",
    "PUT /arvados/v1/containers/",
    "POST /arvados/v1/containers/",
    "POST /arvados/v1/dispatch/statuses",
    "POST /arvados/v1/dispatch/machines",
    "POST /arvados/v1/logs",
    "GET /websocket",
)
"""All calls of a dispatcher: the queue and its events, lock and unlock, status reports."""
ARVADOS_DISPATCHER_SCOPES: Final = (
    *DISPATCHER_SCOPES,
    "GET /arvados/v1/users/current",
    "POST /arvados/v1/collections",
    "PUT /arvados/v1/collections/",
    "POST /arvados/v1/connect/",
)
"""A dispatcher's token for the calls that Arvados' crunch-run makes with it: store its log, open
its tunnel, unmount.

Such a token may store only collections with logs of containers that it has locked
(`dispatching.check_log`).
"""
_DISPATCHING: Final = "/arvados/v1/dispatch/"
_ALWAYS: Final = "/arvados/v1/api_client_authorizations/current"
_COLLECTIONS: Final = "/arvados/v1/collections"
_APART: Final = (USERS, TOKENS, LOGS)
PUBLIC: Final = frozenset(
    {
        "uuid",
        "is_active",
        "is_admin",
        "is_invited",
        "email",
        "first_name",
        "last_name",
        "username",
        "can_write",
        "can_manage",
        "kind",
    }
)
"""All visible attributes of other users."""
_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of a request.

    `token` is the text as presented: signatures are made for it. `container_uuid` is the container
    whose own token this is; `supervises` the container of a supervisor's token. `is_dispatcher`:
    the token is for a dispatcher (`names_dispatching`). Neither of the two is an admin, whoever
    owns the token. `is_anonymous`: the token of the anonymous user. `readers` are further
    principals whose tokens came with the call: records that any of them may read can be read.
    """

    user_uuid: str
    token_uuid: str
    token: str
    is_admin: bool = False
    is_active: bool = True
    scopes: tuple[str, ...] = ALL_SCOPES
    container_uuid: str | None = None
    supervises: str | None = None
    is_dispatcher: bool = False
    is_anonymous: bool = False
    readers: tuple[Principal, ...] = ()

    @property
    def everybody(self) -> tuple[Principal, ...]:
        """The principal and the readers, each without the others."""
        return (replace(self, readers=()), *self.readers) if self.readers else (self,)

    def connection_holder(self, address: str) -> str:
        """Name for which a connection of this caller counts among those in use; "" for a
        dispatcher, whose containers have one each. `address` is that of the client.
        """
        if self.is_dispatcher:
            return ""
        if self.is_anonymous:
            # One stranger must not take the connections of all others.
            return f"{self.user_uuid} {address}"
        return self.supervises or self.user_uuid


def check_scope(principal: Principal, method: str, path: str) -> None:
    """Raise Forbidden unless a scope of the token covers the call.

    A scope is "METHOD /path": exact, or every path below it when it ends in "/"; GET covers HEAD;
    "all" covers everything.
    """
    # Reading a directory of files (PROPFIND) and partial updates (PATCH) need no scope of their
    # own.
    method = "GET" if method in ("HEAD", "PROPFIND") else "PUT" if method == "PATCH" else method
    if not covers(principal, method, path):
        raise Forbidden(f"Forbidden: the scopes of this token do not include {method} {path}")


def covers(principal: Principal, method: str, path: str) -> bool:
    """Whether the scopes of the token cover the call; the token's own record can always be read."""
    # Its own record says to a holder what a limited token may do.
    if "all" in principal.scopes or (method == "GET" and path == _ALWAYS):
        return True
    for scope in principal.scopes:
        verb, _, target = scope.partition(" ")
        # Only a slash at the end makes a prefix: "GET /arvados/v1/users" must not cover
        # ".../users_of_others".
        if verb == method and (path.startswith(target) if target.endswith("/") else path == target):
            return True
    return False


def names_dispatching(scopes: Iterable[str]) -> bool:
    """Whether a token with these scopes is for a dispatcher, if an admin owns it: one of them names
    the reports of dispatchers. A scope that merely covers them, as "all", does not count.
    """
    return any(scope.partition(" ")[2].startswith(_DISPATCHING) for scope in scopes)


def check_dispatching(principal: Principal, action: str) -> None:
    """Raise Forbidden unless a dispatcher or an admin calls."""
    if not (principal.is_dispatcher or principal.is_admin):
        raise Forbidden(f"Forbidden: only dispatchers and admins may {action}")


def is_limited(principal: Principal) -> bool:
    """Whether the token may make fewer calls than its user."""
    return "all" not in principal.scopes


def covers_get(principal: Principal, kind: RecordType, *names: str) -> bool:
    """Whether the scopes cover a GET of the record of this type under one of these names."""
    return any(covers(principal, "GET", f"/arvados/v1/{kind.plural}/{name}") for name in names)


def covers_list(principal: Principal, kind: RecordType) -> bool:
    """Whether the scopes cover listing the records of this type, or a GET of each of them."""
    path = f"/arvados/v1/{kind.plural}"
    return covers(principal, "GET", path) or covers(principal, "GET", f"{path}/")


def check_filters(principal: Principal, where: Iterable[Expression]) -> None:
    """Refuse filters on the containers of requests for tokens that may not list containers: the
    results would reveal them. Raises Forbidden.
    """
    if (
        is_limited(principal)
        and any(map(_asks_containers, where))
        and not covers_list(principal, CONTAINERS)
    ):
        raise Forbidden(
            "Forbidden: filters: the scopes of this token do not include "
            "GET /arvados/v1/containers, which filters on 'container.' need"
        )


def _asks_containers(expression: Expression) -> bool:
    match expression:
        case OfContainer():
            return True
        case Either(parts) | All(parts):
            return any(map(_asks_containers, parts))
        case Not(part):
            return _asks_containers(part)
        case _:
            return False


def check_active(principal: Principal) -> None:
    """Refuse deactivated users. Raises Forbidden."""
    if not (principal.is_active or principal.is_admin or principal.is_anonymous):
        raise Forbidden("Forbidden: this user is not active")


def check_user(principal: Principal) -> None:
    """Refuse deactivated users and the anonymous user. Raises Forbidden."""
    check_active(principal)
    if principal.is_anonymous:
        raise Forbidden("Forbidden: this is for users with an account")


def check_blocks(principal: Principal, *, writing: bool) -> None:
    """Refuse tokens that may not use the block store. Raises Forbidden.

    Writing needs an active user and a scope that stores collections: a block without a collection
    is of no use. Reading needs an active user or the anonymous one, and a scope of any method on
    collections: the signatures for reading blocks are returned by those calls only.
    """
    check_active(principal)
    if writing and principal.is_anonymous:
        raise Forbidden("Forbidden: the anonymous user may not store blocks; log in")
    if not _uses_collections(principal, writing=writing):
        raise Forbidden(
            "Forbidden: the scopes of this token do not let it "
            f"{'store' if writing else 'read'} collections, nor their blocks; "
            "it needs 'all' or, for example, "
            f"'{'POST' if writing else 'GET'} {_COLLECTIONS}'"
        )


def _uses_collections(principal: Principal, *, writing: bool) -> bool:
    """Whether a scope covers creating or changing any collection, or reading one unless
    `writing`.
    """
    methods = ("PUT",) if writing else ("PUT", "GET")
    if covers(principal, "POST", _COLLECTIONS) or (
        not writing and covers(principal, "GET", _COLLECTIONS)
    ):
        return True
    for scope in principal.scopes:
        verb, _, target = scope.partition(" ")
        above = target.endswith("/") and _COLLECTIONS.startswith(target)
        if verb in methods and (above or target.startswith(f"{_COLLECTIONS}/")):
            return True
    return False


def check_admin(principal: Principal, action: str) -> None:
    """Raise Forbidden unless an admin calls."""
    if not principal.is_admin:
        raise Forbidden(f"Forbidden: only admins may {action}")


def readable(
    kind: RecordType,
    principal: Principal,
    *,
    now: str,
    include_trash: bool = False,
    roles: bool = True,
    few: bool = False,
    asked: frozenset[str] = _NOTHING,
) -> tuple[Expression, ...]:
    """Conditions for rows of this type that the caller may read; `few`: only few rows are examined.
    With `asked`, the names of attributes, also those that the caller sees of each row: the hits of
    a filter on another one would reveal it.

    Records trashed through a project are excluded unless `include_trash`; a record's own trash is a
    filter of the caller. `roles`: whether all active users see role groups. Admins read everything
    that is not in the trash.
    """
    if principal.readers:
        each = (
            readable(
                kind,
                caller,
                now=now,
                include_trash=include_trash,
                roles=roles,
                few=few,
                asked=asked,
            )
            # Each caller by itself: a row must pass all conditions of one of them, not some of
            # each.
            for caller in principal.everybody
        )
        return (Either(tuple(All(parts) if parts else Constant(True) for parts in each)),)
    trash = _outside_trash(kind, principal, now, include_trash=include_trash)
    if principal.is_admin:
        return trash
    if principal.is_dispatcher and kind is CONTAINERS:
        return (_dispatched(principal), *trash)
    shown = _shown(kind, principal.user_uuid, asked)
    return (*_permitted(kind, principal, now, roles=roles, few=few), *shown, *trash)


def _shown(kind: RecordType, user: str, asked: frozenset[str]) -> tuple[Expression, ...]:
    """Conditions for readable rows of which a user sees all these attributes."""
    if kind is USERS and not asked <= PUBLIC:
        return (_is("uuid", user),)
    if kind is LOGS and "properties" in asked:
        # A decision names containers that not each of its readers can read.
        decision = Compare(Column("event_type", Type.STRING), "=", LogRowType.RESOLVE)
        return (FormerPlace(user), Not(decision))
    return ()


def sortable(
    kind: RecordType, principal: Principal, order: tuple[SortKey, ...]
) -> tuple[SortKey, ...]:
    """The sort keys that the caller sees of each readable row. The order of the rows would reveal
    the values of other keys.
    """
    if kind is not USERS or all(caller.is_admin for caller in principal.everybody):
        return order
    return tuple(key for key in order if key.column in PUBLIC)


def _outside_trash(
    kind: RecordType, principal: Principal, now: str, *, include_trash: bool
) -> tuple[Expression, ...]:
    """Conditions that exclude rows of trashed projects."""
    if kind is not GROUPS and (not kind.owned or not kind.stored or kind in _APART):
        return ()
    column = "uuid" if kind is GROUPS else "owner_uuid"
    if not include_trash:
        return (Untrashed(column, now),)
    # Rows in frozen trash stay hidden from users, also with include_trash.
    return () if principal.is_admin else (Untrashed(column, now, frozen=True),)


def _permitted(
    kind: RecordType, principal: Principal, now: str, *, roles: bool, few: bool
) -> tuple[Expression, ...]:
    user = principal.user_uuid
    accessible: Expression = Accessible(user)
    if few:
        # The same condition, evaluated for each row instead of listing all accessible records of
        # the user.
        accessible = Either((Reachable(user, "owner_uuid", owning=True), Reachable(user, "uuid")))
    if kind is KEEP_SERVICES:
        return ()
    if kind is CONTAINERS:
        return (Requested(user, now),)
    if kind is LOGS:
        return (About(user, now),)
    if kind is TOKENS:
        return (_is("owner_uuid", user),)
    if kind is WEBHOOKS:
        # Its URL may be a secret, which those who can just read the project must not learn.
        managed = Reachable(user, "owner_uuid", level=Level.MANAGE)
        return (Either((_is("owner_uuid", user), managed)),)
    if kind is USERS:
        # Deactivated users are seen by admins and by themselves.
        active = Compare(Column("is_active", Type.BOOLEAN), "=", True)
        return (Either((_is("uuid", user), All((active, Reachable(user, "uuid"))))),)
    if kind is GROUPS:
        # An account that nobody has activated yet must not learn the names of roles.
        role = (_is("group_class", "role"),) if roles and principal.is_active else ()
        return (Either((Reachable(user, "uuid"), *role)),)
    if kind is LINKS:
        ends = Either((_is("tail_uuid", user), _is("head_uuid", user), ManagedHead(user)))
        given = Either((_is("link_class", "permission"), _is("link_class", CONTAINER_ACCESS)))
        return (Either((accessible, All((given, ends)), NamesImage(user))),)
    return (accessible,)


def _dispatched(dispatcher: Principal) -> Expression:
    """The condition of containers that wait, and of those that a dispatcher was the last to lock,
    also when they have ended.
    """
    names = ("locked_by_uuid", "last_locked_by_uuid")
    return Either((_is("state", "Queued"), *(_is(name, dispatcher.token_uuid) for name in names)))


def _is(name: str, value: str) -> Expression:
    return Compare(Column(name, Type.STRING), "=", value)


def supervisor_scopes(container_uuid: str) -> tuple[str, ...]:
    """All calls of the supervisor of one container."""
    path = f"/arvados/v1/containers/{container_uuid}"
    return (
        f"GET {path}",
        f"PUT {path}",
        f"GET {path}/auth",
        f"POST {path}/unlock",
        f"POST {path}/live/",
        f"POST {path}/finish",
        f"POST {path}/gateway_tunnel",
        f"GET {path}/git_tree",
        "GET /arvados/v1/users/current",
    )


def data_scopes(
    container_uuid: str, *, has_api: bool, granted: Sequence[str], collections: Iterable[str]
) -> tuple[str, ...]:
    """All calls of a container's own token: the granted scopes, if the container may use the API.

    Otherwise the token never enters the container; its supervisor uses it to read the named
    `collections`, the container's inputs and image, and to store its results. An untrusted machine
    then learns nothing about other data of the user. The supervisor needs as much when less than
    everything was granted.
    """
    if has_api and "all" in granted:
        return ALL_SCOPES
    path = f"/arvados/v1/containers/{container_uuid}"
    needed = (
        f"GET {path}",
        f"PUT {path}",
        f"GET {path}/secret_mounts",
        f"POST {path}/progress",
        "GET /arvados/v1/containers/current",
        "GET /arvados/v1/users/current",
        *(f"GET /arvados/v1/collections/{collection}" for collection in dict.fromkeys(collections)),
        "POST /arvados/v1/collections",
    )
    # The supervisor works with the same token: it needs its calls, whatever the user has granted.
    return tuple(dict.fromkeys((*granted, *needed))) if has_api else needed
