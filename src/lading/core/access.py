"""Who may do what: the principal behind a token, its scopes, and what it may read and write.

Source: api-contract 5.2, 8. Admins do everything within the scopes of their token, but for the trash and frozen
projects; everybody else reads what `permissions` gives a level on. A container is readable through a request that
points at it, a log row with the object that it is about, a token by its user only. A permission link is readable to the
users at its ends and to managers of its head; of other users the active ones are seen, and what `PUBLIC` lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Forbidden
from lading.core.filters import All, Column, Compare, Either, Expression
from lading.core.records import CONTAINERS, GROUPS, KEEP_SERVICES, LINKS, LOGS, TOKENS, USERS
from lading.core.schema import RecordType, Type
from lading.core.visibility import About, Accessible, ManagedHead, Reachable, Requested, Untrashed

ALL_SCOPES: Final = ("all",)
DISPATCHER_SCOPES: Final = (
    "GET /arvados/v1/containers",
    "GET /arvados/v1/containers/",
    "PUT /arvados/v1/containers/",
    "POST /arvados/v1/containers/",
    "POST /arvados/v1/dispatch/statuses",
    "POST /arvados/v1/logs",
    "GET /websocket",
)
"""All that a dispatcher may call: the queue and its events, lock and unlock, reports about what it did."""
_ALWAYS: Final = "/arvados/v1/api_client_authorizations/current"
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
"""All that is seen of other users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling.

    `token` is the text as presented: signatures are made for it. `container_uuid` is the container whose own token this
    is; `supervises` the container that a supervisor's token is for. `is_anonymous`: nobody in particular.
    """

    user_uuid: str
    token_uuid: str
    token: str
    is_admin: bool = False
    is_active: bool = True
    scopes: tuple[str, ...] = ALL_SCOPES
    container_uuid: str | None = None
    supervises: str | None = None
    is_anonymous: bool = False


def check_scope(principal: Principal, method: str, path: str) -> None:
    """Let the call pass if a scope of the token covers it. Raises Forbidden.

    A scope is "METHOD /path": exact, or everything below it when it ends in "/"; GET covers HEAD; "all" is everything.
    """
    method = "GET" if method in ("HEAD", "PROPFIND") else "PUT" if method == "PATCH" else method
    if not covers(principal, method, path):
        raise Forbidden(f"Forbidden: the scopes of this token do not include {method} {path}")


def covers(principal: Principal, method: str, path: str) -> bool:
    """Whether the scopes of the token include the call; its own record can always be read."""
    if "all" in principal.scopes or (method == "GET" and path == _ALWAYS):
        return True
    for scope in principal.scopes:
        verb, _, target = scope.partition(" ")
        if verb == method and (path.startswith(target) if target.endswith("/") else path == target):
            return True
    return False


def check_active(principal: Principal) -> None:
    """Refuse users who are switched off. Raises Forbidden."""
    if not (principal.is_active or principal.is_admin or principal.is_anonymous):
        raise Forbidden("Forbidden: this user is not active")


def check_admin(principal: Principal, what: str) -> None:
    """Raises Forbidden unless an admin calls."""
    if not principal.is_admin:
        raise Forbidden(f"Forbidden: only admins may {what}")


def readable(
    kind: RecordType, principal: Principal, *, now: str, include_trash: bool = False, roles: bool = True
) -> tuple[Expression, ...]:
    """Conditions that the rows of this type meet which the caller may read.

    What is in the trash through a project is left out unless `include_trash`; a record's own trash is the caller's
    business. `roles`: whether all active users see role groups. Admins read everything that is not in the trash.
    """
    trash: tuple[Expression, ...] = ()
    if kind is GROUPS or (kind.owned and kind.stored and kind not in _APART):
        column = "uuid" if kind is GROUPS else "owner_uuid"
        if not include_trash:
            trash = (Untrashed(column, now),)
        elif not principal.is_admin:
            trash = (Untrashed(column, now, frozen=True),)
    return trash if principal.is_admin else (*_permitted(kind, principal, now, roles=roles), *trash)


def _permitted(kind: RecordType, principal: Principal, now: str, *, roles: bool) -> tuple[Expression, ...]:
    user = principal.user_uuid
    if kind is KEEP_SERVICES:
        return ()
    if kind is CONTAINERS:
        return (Requested(user, now),)
    if kind is LOGS:
        return (About(user, now),)
    if kind is TOKENS:
        return (_is("owner_uuid", user),)
    if kind is USERS:
        active = Compare(Column("is_active", Type.BOOLEAN), "=", True)
        return (Either((_is("uuid", user), All((active, Reachable(user, "uuid"))))),)
    if kind is GROUPS:
        role = (_is("group_class", "role"),) if roles and principal.is_active else ()
        return (Either((Reachable(user, "uuid"), *role)),)
    if kind is LINKS:
        ends = Either((_is("tail_uuid", user), _is("head_uuid", user), ManagedHead(user)))
        return (Either((Accessible(user), All((_is("link_class", "permission"), ends)))),)
    return (Accessible(user),)


def _is(name: str, value: str) -> Expression:
    return Compare(Column(name, Type.STRING), "=", value)


def supervisor_scopes(container_uuid: str) -> tuple[str, ...]:
    """All that the supervisor of one container may call."""
    path = f"/arvados/v1/containers/{container_uuid}"
    return (
        f"GET {path}",
        f"PUT {path}",
        f"GET {path}/auth",
        f"POST {path}/unlock",
        f"POST {path}/live/",
        "GET /arvados/v1/users/current",
    )
