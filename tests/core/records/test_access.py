"""Scopes, what is readable, what may be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lading.core.errors import Forbidden
from lading.core.records import access
from lading.core.records.access import Principal
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
from lading.core.records.permissions import (
    About,
    Accessible,
    FormerPlace,
    Level,
    ManagedHead,
    Reachable,
    Requested,
    Untrashed,
)
from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, LOGS, TOKENS, USERS
from lading.core.records.schema import RecordType, Type
from lading.core.records.service_records import KEEP_SERVICES, WEBHOOKS

ADMIN = Principal(user_uuid="a", token_uuid="t", token="t", is_admin=True)
USER = Principal(user_uuid="u", token_uuid="t", token="t")
NOBODY = Principal(user_uuid="u", token_uuid="t", token="t", is_active=False, is_anonymous=True)


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


BLOCK_USERS = (
    # scopes, may read, may write
    (("all",), True, True),
    (("POST /arvados/v1/collections",), True, True),
    (("PUT /arvados/v1/collections/zzzzz-4zz18-000000000000000",), True, True),
    (("PUT /arvados/v1/collections/",), True, True),
    (("PUT /arvados/",), True, True),
    (("GET /",), True, False),
    (("GET /arvados/v1/collections",), True, False),
    (("GET /arvados/v1/collections/zzzzz-4zz18-000000000000000",), True, False),
    (
        ("GET /arvados/v1/users/current", "POST /arvados/v1/links", "PUT /arvados/v1/links/"),
        False,
        False,
    ),
    (("POST /arvados/v1/collections/x/trash", "DELETE /"), False, False),
    (("GET /arvados/v1/collectionsandmore",), False, False),
    ((), False, False),
)


@pytest.mark.parametrize(("scopes", "may_read", "may_write"), BLOCK_USERS)
def test_blocks_by_scope(scopes: tuple[str, ...], may_read: bool, may_write: bool) -> None:
    for writing, allowed in ((False, may_read), (True, may_write)):
        if allowed:
            access.check_blocks(scoped(*scopes), writing=writing)
        else:
            with pytest.raises(Forbidden, match="scopes of this token"):
                access.check_blocks(scoped(*scopes), writing=writing)


def test_blocks_by_user() -> None:
    inactive = replace(USER, is_active=False)
    nobody = replace(NOBODY, scopes=("GET /",))
    access.check_blocks(nobody, writing=False)
    for principal, writing in ((inactive, False), (inactive, True), (nobody, True), (NOBODY, True)):
        with pytest.raises(Forbidden):
            access.check_blocks(principal, writing=writing)


def test_blocks_of_the_tokens_of_a_container() -> None:
    own = access.data_scopes("c", has_api=False, granted=("all",), collections=["pdh"])
    access.check_blocks(scoped(*own), writing=True)
    for narrow in (access.supervisor_scopes("c"), access.DISPATCHER_SCOPES):
        with pytest.raises(Forbidden):
            access.check_blocks(scoped(*narrow), writing=False)


def test_a_supervisor_touches_its_container_only() -> None:
    supervisor = scoped(*access.supervisor_scopes("c"))
    access.check_scope(supervisor, "PUT", "/arvados/v1/containers/c")
    access.check_scope(supervisor, "POST", "/arvados/v1/containers/c/live/stdout.txt")
    for method, path in (
        ("GET", "containers/d"),
        ("POST", "containers/c/lock"),
        ("POST", "collections"),
    ):
        with pytest.raises(Forbidden):
            access.check_scope(supervisor, method, f"/arvados/v1/{path}")


def test_admins_read_all_but_the_trash() -> None:
    assert access.readable(COLLECTIONS, ADMIN, now="t") == (Untrashed("owner_uuid", "t"),)
    assert access.readable(GROUPS, ADMIN, now="t") == (Untrashed("uuid", "t"),)
    for kind in (KEEP_SERVICES, USERS, TOKENS, LOGS, CONTAINERS):
        assert access.readable(kind, ADMIN, now="t") == ()
    assert access.readable(COLLECTIONS, ADMIN, now="t", include_trash=True) == ()


def test_others_read_what_they_have_a_level_on() -> None:
    assert access.readable(COLLECTIONS, USER, now="t") == (
        Accessible("u"),
        Untrashed("owner_uuid", "t"),
    )
    frozen = Untrashed("owner_uuid", "t", frozen=True)
    assert access.readable(COLLECTIONS, USER, now="t", include_trash=True) == (
        Accessible("u"),
        frozen,
    )
    each = Either((Reachable("u", "owner_uuid", owning=True), Reachable("u", "uuid")))
    assert access.readable(COLLECTIONS, USER, now="t", few=True) == (
        each,
        Untrashed("owner_uuid", "t"),
    )
    assert access.readable(CONTAINERS, USER, now="t") == (Requested("u", "t"),)
    assert access.readable(LOGS, USER, now="t") == (About("u", "t"),)
    assert access.readable(TOKENS, USER, now="t") == (
        Compare(Column("owner_uuid", Type.STRING), "=", "u"),
    )
    assert access.readable(KEEP_SERVICES, USER, now="t") == ()


def test_users_roles_and_links_have_rules_of_their_own() -> None:
    (users,) = access.readable(USERS, USER, now="t")
    active = All((Compare(Column("is_active", Type.BOOLEAN), "=", True), Reachable("u", "uuid")))
    assert users == Either((Compare(Column("uuid", Type.STRING), "=", "u"), active))
    role = Compare(Column("group_class", Type.STRING), "=", "role")
    assert access.readable(GROUPS, USER, now="t")[0] == Either((Reachable("u", "uuid"), role))
    assert access.readable(GROUPS, USER, now="t", roles=False)[0] == Either(
        (Reachable("u", "uuid"),)
    )
    assert access.readable(GROUPS, NOBODY, now="t")[0] == Either((Reachable("u", "uuid"),))
    assert ManagedHead("u") in access.readable(LINKS, USER, now="t")[0].parts[1].parts[1].parts  # type: ignore[union-attr]


def test_admins_and_active_users() -> None:
    access.check_admin(ADMIN, "x")
    access.check_active(USER)
    access.check_active(NOBODY)
    access.check_user(USER)
    with pytest.raises(Forbidden, match="with an account"):
        access.check_user(NOBODY)
    with pytest.raises(Forbidden, match="only admins may x"):
        access.check_admin(USER, "x")
    with pytest.raises(Forbidden, match="not active"):
        access.check_active(Principal(user_uuid="u", token_uuid="t", token="t", is_active=False))


def test_limits_of_a_token() -> None:
    assert not access.is_limited(USER)
    assert not access.is_limited(scoped("all", "GET /x"))
    assert access.is_limited(scoped("GET /"))
    assert access.covers_get(scoped("GET /arvados/v1/collections/b"), COLLECTIONS, "a", "b")
    assert not access.covers_get(scoped("GET /arvados/v1/collections/b"), COLLECTIONS, "a")
    for scope in ("GET /arvados/v1/collections", "GET /arvados/v1/collections/", "GET /"):
        assert access.covers_list(scoped(scope), COLLECTIONS)
    assert not access.covers_list(scoped("GET /arvados/v1/collections/b"), COLLECTIONS)


def test_filters_on_containers_need_a_scope_for_them() -> None:
    plain = Compare(Column("name", Type.STRING), "=", "n")
    joined = OfContainer(Compare(Column("state", Type.STRING), "=", "Running"))
    narrow = scoped("GET /arvados/v1/container_requests")
    access.check_filters(narrow, [plain, Either((plain,)), Not(plain)])
    for where in (joined, Either((plain, joined)), All((joined,)), Not(joined)):
        access.check_filters(USER, [plain, where])
        access.check_filters(scoped("GET /arvados/v1/containers"), [where])
        with pytest.raises(Forbidden, match="GET /arvados/v1/containers"):
            access.check_filters(narrow, [plain, where])


def test_filters_on_what_a_user_does_not_see_find_no_row_of_others() -> None:
    def found(kind: RecordType, principal: Principal, *asked: str) -> tuple[Expression, ...]:
        return access.readable(kind, principal, now="n", asked=frozenset(asked))

    own = Compare(Column("uuid", Type.STRING), "=", "u")
    plain = found(USERS, USER)
    assert found(USERS, USER, "email", "username") == plain
    assert found(USERS, USER, "email", "prefs") == (*plain, own)
    assert found(LOGS, USER, "summary") == (About("u", "n"),)
    decision = Not(Compare(Column("event_type", Type.STRING), "=", "resolve"))
    assert found(LOGS, USER, "properties") == (About("u", "n"), FormerPlace("u"), decision)
    assert found(USERS, ADMIN, "prefs") == found(LOGS, ADMIN, "properties") == ()
    both = replace(USER, readers=(ADMIN,))
    assert found(USERS, both, "prefs") == (Either((All((*plain, own)), Constant(True))),)


def test_rows_are_sorted_by_what_their_reader_sees() -> None:
    order = (SortKey("email"), SortKey("prefs"), SortKey("modified_at"), SortKey("uuid"))
    assert access.sortable(USERS, USER, order) == (order[0], order[3])
    assert access.sortable(USERS, replace(ADMIN, readers=(USER,)), order) == (order[0], order[3])
    assert access.sortable(USERS, ADMIN, order) == order
    assert access.sortable(GROUPS, USER, order) == order


def test_readers_read_each_by_itself() -> None:
    reader = replace(USER, user_uuid="r")
    caller = replace(USER, readers=(reader,))
    assert USER.everybody == (USER,)
    assert caller.everybody == (USER, reader)
    alone = [All(access.readable(COLLECTIONS, one, now="t")) for one in (USER, reader)]
    assert access.readable(COLLECTIONS, caller, now="t") == (Either(tuple(alone)),)
    with_admin = access.readable(CONTAINERS, replace(USER, readers=(ADMIN,)), now="t")
    assert with_admin == (Either((All((Requested("u", "t"),)), Constant(True))),)


def test_a_webhook_is_read_by_those_who_manage_its_owner() -> None:
    own = Compare(Column("owner_uuid", Type.STRING), "=", "u")
    managed = Reachable("u", "owner_uuid", level=Level.MANAGE)
    assert access.readable(WEBHOOKS, USER, now="t")[0] == Either((own, managed))


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (access.DISPATCHER_SCOPES, True),
        (access.ARVADOS_DISPATCHER_SCOPES, True),
        (("POST /arvados/v1/dispatch/machines",), True),
        (("all",), False),
        (("POST /arvados/v1/",), False),
        (("GET /", "POST /"), False),
        (("GET /arvados/v1/containers",), False),
        ((), False),
    ],
)
def test_the_scopes_of_dispatchers(scopes: tuple[str, ...], expected: bool) -> None:
    assert access.names_dispatching(scopes) is expected


def test_a_dispatcher_reports() -> None:
    dispatcher = replace(USER, is_dispatcher=True, token_uuid="t")
    for principal in (dispatcher, ADMIN):
        access.check_dispatching(principal, "report")
    with pytest.raises(Forbidden, match="only dispatchers and admins may report"):
        access.check_dispatching(USER, "report")


def test_a_dispatcher_reads_containers_that_wait_or_that_it_locked() -> None:
    dispatcher = replace(USER, is_dispatcher=True, token_uuid="t")
    pairs = (("state", "Queued"), ("locked_by_uuid", "t"), ("last_locked_by_uuid", "t"))
    expected = Either(
        tuple(Compare(Column(name, Type.STRING), "=", value) for name, value in pairs)
    )
    assert access.readable(CONTAINERS, dispatcher, now="t") == (expected,)
    assert access.readable(COLLECTIONS, dispatcher, now="t") == access.readable(
        COLLECTIONS, USER, now="t"
    )


def test_connections_count_for_users_supervisors_and_addresses_of_strangers() -> None:
    caller = Principal(user_uuid="ann", token_uuid="t", token="x")
    assert caller.connection_holder("10.0.0.1") == "ann"
    assert replace(caller, supervises="dz642").connection_holder("") == "dz642"
    assert replace(caller, is_dispatcher=True).connection_holder("") == ""
    assert replace(caller, is_anonymous=True).connection_holder("10.0.0.1") == "ann 10.0.0.1"
