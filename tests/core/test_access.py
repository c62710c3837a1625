"""Scopes, what is readable, what may be written."""

from __future__ import annotations

import pytest

from lading.core import access
from lading.core.access import Principal
from lading.core.errors import Forbidden
from lading.core.filters import About, Column, Compare, Requested
from lading.core.records import COLLECTIONS, CONTAINERS, KEEP_SERVICES, LOGS, USERS
from lading.core.schema import Type

ADMIN = Principal(user_uuid="a", token_uuid="t", token="t", is_admin=True)
USER = Principal(user_uuid="u", token_uuid="t", token="t")


def scoped(*scopes: str) -> Principal:
    return Principal(user_uuid="u", token_uuid="t", token="t", scopes=scopes)


@pytest.mark.parametrize(
    ("scopes", "method", "path"),
    [
        (("all",), "DELETE", "/x"),
        (("GET /x",), "GET", "/x"),
        (("GET /x",), "HEAD", "/x"),
        (("GET /x/",), "GET", "/x/y"),
        (("POST /y", "PUT /x"), "PATCH", "/x"),
        ((), "GET", "/arvados/v1/api_client_authorizations/current"),
    ],
)
def test_scopes_that_cover(scopes: tuple[str, ...], method: str, path: str) -> None:
    access.check_scope(scoped(*scopes), method, path)


@pytest.mark.parametrize(
    ("scopes", "method", "path"),
    [
        ((), "GET", "/x"),
        (("GET /x",), "GET", "/x/y"),
        (("GET /x/",), "POST", "/x/y"),
        (("GET /x/",), "GET", "/x"),
        ((), "PUT", "/arvados/v1/api_client_authorizations/current"),
        ((), "GET", "/arvados/v1/container_requests/x/log/y/api_client_authorizations/current"),
    ],
)
def test_scopes_that_do_not(scopes: tuple[str, ...], method: str, path: str) -> None:
    with pytest.raises(Forbidden, match="scopes"):
        access.check_scope(scoped(*scopes), method, path)


def test_a_supervisor_touches_its_container_only() -> None:
    supervisor = scoped(*access.supervisor_scopes("c"))
    access.check_scope(supervisor, "PUT", "/arvados/v1/containers/c")
    access.check_scope(supervisor, "POST", "/arvados/v1/containers/c/live/stdout.txt")
    for method, path in (("GET", "containers/d"), ("POST", "containers/c/lock"), ("POST", "collections")):
        with pytest.raises(Forbidden):
            access.check_scope(supervisor, method, f"/arvados/v1/{path}")


def test_readable() -> None:
    assert access.readable(COLLECTIONS, ADMIN) == access.readable(KEEP_SERVICES, USER) == ()
    assert access.readable(CONTAINERS, USER) == (Requested("u"),)
    assert access.readable(LOGS, USER) == (About("u"),)
    assert access.readable(USERS, USER) == (Compare(Column("uuid", Type.STRING), "=", "u"),)
    assert access.readable(COLLECTIONS, USER) == (Compare(Column("owner_uuid", Type.STRING), "=", "u"),)


def test_writes_stay_with_the_owner() -> None:
    access.check_writable(USER, {"uuid": "x", "owner_uuid": "u"})
    access.check_writable(ADMIN, {"uuid": "x", "owner_uuid": "u"})
    with pytest.raises(Forbidden, match="belongs to somebody else"):
        access.check_writable(USER, {"uuid": "x", "owner_uuid": "v"})
    access.check_owner(USER, "u")
    access.check_owner(ADMIN, "u")
    with pytest.raises(Forbidden, match="owner_uuid"):
        access.check_owner(USER, "v")


def test_admins_and_active_users() -> None:
    access.check_admin(ADMIN, "x")
    access.check_active(USER)
    with pytest.raises(Forbidden, match="only admins may x"):
        access.check_admin(USER, "x")
    with pytest.raises(Forbidden, match="not active"):
        access.check_active(Principal(user_uuid="u", token_uuid="t", token="t", is_active=False))
