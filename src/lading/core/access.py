"""Who may do what: the principal behind a token, its scopes, and what it may read and write.

Source: api-contract 5.2, 8. Admins do everything within the scopes of their token; everybody else reads and writes what
they own. A container is readable through a request that points at it; a log row with the object that it is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.errors import Forbidden
from lading.core.filters import About, Column, Compare, Expression, Requested
from lading.core.records import CONTAINERS, KEEP_SERVICES, LOGS, USERS
from lading.core.schema import Record, RecordType, Type

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling.

    `token` is the text as presented: signatures are made for it. `container_uuid` is the container whose own token this
    is; `supervises` the container that a supervisor's token is for.
    """

    user_uuid: str
    token_uuid: str
    token: str
    is_admin: bool = False
    is_active: bool = True
    scopes: tuple[str, ...] = ALL_SCOPES
    container_uuid: str | None = None
    supervises: str | None = None


def check_scope(principal: Principal, method: str, path: str) -> None:
    """Let the call pass if a scope of the token covers it. Raises Forbidden.

    A scope is "METHOD /path": exact, or everything below it when it ends in "/"; GET covers HEAD; "all" is everything.
    """
    method = "GET" if method == "HEAD" else "PUT" if method == "PATCH" else method
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
    if not principal.is_active and not principal.is_admin:
        raise Forbidden("Forbidden: this user is not active")


def check_admin(principal: Principal, what: str) -> None:
    """Raises Forbidden unless an admin calls."""
    if not principal.is_admin:
        raise Forbidden(f"Forbidden: only admins may {what}")


def readable(kind: RecordType, principal: Principal) -> tuple[Expression, ...]:
    """Conditions that the rows of this type meet which the caller may read; none for admins."""
    if principal.is_admin or kind is KEEP_SERVICES:
        return ()
    if kind is CONTAINERS:
        return (Requested(principal.user_uuid),)
    if kind is LOGS:
        return (About(principal.user_uuid),)
    name = "uuid" if kind is USERS else "owner_uuid"
    return (Compare(Column(name, Type.STRING), "=", principal.user_uuid),)


def check_writable(principal: Principal, record: Record) -> None:
    """Raises Forbidden unless the caller may change this record."""
    if not principal.is_admin and record["owner_uuid"] != principal.user_uuid:
        raise Forbidden(f"Forbidden: {record['uuid']} belongs to somebody else")


def check_owner(principal: Principal, owner_uuid: str) -> None:
    """Raises Forbidden unless the caller may make this user the owner of a record."""
    if not principal.is_admin and owner_uuid != principal.user_uuid:
        raise Forbidden(f"Forbidden: owner_uuid: you may not give records to {owner_uuid}")


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
