"""Users."""

from __future__ import annotations

import pytest

from lading.core.records.access import PUBLIC
from lading.core.records.record_types import USERS
from lading.core.records.schema import Record
from lading.testing.world import World


async def test_current_and_system(it: World) -> None:
    assert (await it.ok("GET", "users/current"))["is_admin"]
    assert (await it.ok("GET", "users/system"))["username"] == "root"
    assert (await it.request("GET", "users/system", token=await it.user("u"))).status == 403


async def test_users_see_active_users_only(it: World) -> None:
    token = await it.user("u")
    mine = await it.ok("GET", "users", token=token)
    assert [one["username"] for one in mine["items"]] == ["u", "admin"]
    assert mine["items_available"] == 2
    system = await it.ok("GET", "users/system")
    assert (await it.request("GET", f"users/{system['uuid']}", token=token)).status == 404
    assert len((await it.ok("GET", "users"))["items"]) == 4


async def test_users_change_their_names(it: World) -> None:
    token = await it.user("u")
    uuid = (await it.ok("GET", "users/current", token=token))["uuid"]
    changed = await it.ok(
        "PUT", f"users/{uuid}", {"first_name": "U", "prefs": {"a": 1}}, token=token
    )
    assert changed["full_name"] == "U"
    reply = await it.request("PUT", f"users/{uuid}", {"is_admin": True}, token=token)
    assert (reply.status, "only admins may change is_admin" in reply.error) == (403, True)
    assert (await it.ok("PUT", f"users/{uuid}", {"is_active": False, "email": ""}))[
        "is_active"
    ] is False


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "users", {"username": "admin"}, 422),
        ("POST", "users", {"nope": 1}, 422),
        ("PUT", "users/zzzzz-tpzed-000000000000000", {"is_admin": False}, 422),
        ("DELETE", "users/zzzzz-tpzed-000000000000000", None, 422),
        ("DELETE", "users/zzzzz-tpzed-000000000000001", None, 404),
    ],
)
async def test_faults(it: World, method: str, path: str, body: Record, status: int) -> None:
    assert (await it.request(method, path, body)).status == status


async def test_only_admins_make_and_delete(it: World) -> None:
    token = await it.user("u")
    uuid = (await it.ok("GET", "users/current", token=token))["uuid"]
    assert (await it.request("POST", "users", {"username": "v"}, token=token)).status == 403
    assert (await it.request("DELETE", f"users/{uuid}", token=token)).status == 403
    assert (await it.ok("DELETE", f"users/{uuid}"))["uuid"] == uuid
    assert (await it.request("GET", "users/current", token=token)).status == 401


@pytest.mark.parametrize(
    "params",
    [
        {"filters": [["prefs", "exists", "x"]]},
        {"filters": [[["email", "identity_url"], "=", "x"]]},
        {"filters": [["any", "like", "%"]]},
        {"where": {"identity_url": "x"}},
        {"select": ["identity_url"], "distinct": True},
        {"filters": [["(identity_url != email)", "=", True]]},
        {"filters": [["created_at", ">", "2020-01-01"]]},
        {"filters": [["modified_at", ">", "2020-01-01"]]},
    ],
)
async def test_what_is_hidden_of_others_cannot_be_searched(it: World, params: Record) -> None:
    other = (await it.ok("GET", "users/current", token=await it.user("v")))["uuid"]
    await it.ok("PUT", f"users/{other}", {"identity_url": "x", "prefs": {"x": 1}})
    assert len((await it.ok("GET", "users", params=params))["items"]) >= 1
    found = await it.ok("GET", "users", params=params, token=await it.user("u"))
    assert "x" not in [one.get("identity_url") for one in found["items"]]
    assert other not in [one.get("uuid") for one in found["items"]]


HIDDEN = [one.name for one in USERS.columns if not one.hidden and one.name not in PUBLIC]


@pytest.mark.parametrize("name", HIDDEN)
async def test_the_order_of_users_does_not_tell_what_is_hidden(it: World, name: str) -> None:
    token = await it.user("u")
    for other in ("v", "w"):
        uuid = (await it.ok("GET", "users/current", token=await it.user(other)))["uuid"]
        await it.ok("PUT", f"users/{uuid}", {"identity_url": other})

    async def listed(order: str) -> list[str]:
        page = await it.ok("GET", "users", params={"order": order}, token=token)
        return [one["uuid"] for one in page["items"]]

    by_uuid = await listed("uuid desc")
    assert by_uuid == sorted(by_uuid, reverse=True)
    assert await listed(name) == await listed(f"{name} desc") == by_uuid
    assert await listed(f"{name}, username asc") == await listed("username asc")


async def test_inactive_users_are_not_seen(it: World) -> None:
    other = (await it.ok("GET", "users/current", token=await it.user("v")))["uuid"]
    token = await it.user("u")
    assert (await it.ok("GET", f"users/{other}", token=token))["username"] == "v"
    assert (
        await it.request("PUT", f"users/{other}", {"first_name": "x"}, token=token)
    ).status == 403
    await it.ok("PUT", f"users/{other}", {"is_active": False})
    assert (await it.request("GET", f"users/{other}", token=token)).status == 404
    assert other not in [one["uuid"] for one in (await it.ok("GET", "users", token=token))["items"]]


async def test_a_token_stands_for_a_password(it: World) -> None:
    token = await it.user("u")
    for name in ("u", "u@example.org"):
        given = {"username": name, "password": token}
        found = await it.ok("POST", "users/authenticate", given, token="")
        assert f"v2/{found['uuid']}/{found['api_token']}" == token
        assert found["kind"] == "arvados#apiClientAuthorization"


@pytest.mark.parametrize(
    "given",
    [
        {"username": "v"},
        {"password": "v2/no/token"},
        {"username": ""},
        {"password": ""},
        {"password": "CONTAINER"},
    ],
)
async def test_who_has_no_token_of_the_user_is_refused(it: World, given: Record) -> None:
    token = await it.user("u")
    await it.user("v")
    if given.get("password") == "CONTAINER":
        made = await it.submit(token=token)
        await it.ok(
            "PUT",
            f"containers/{made['container_uuid']}",
            {"state": "Running"},
            token=await it.lock(made["container_uuid"]),
        )
        given = {"password": await it.container_token(made["container_uuid"])}
    reply = await it.request(
        "POST", "users/authenticate", {"username": "u", "password": token, **given}, token=""
    )
    assert (reply.status, "Not logged in" in reply.error) == (401, True)


async def test_an_inactive_user_is_given_no_token(it: World) -> None:
    token = await it.user("u")
    uuid = (await it.ok("GET", "users/current", token=token))["uuid"]
    await it.ok("PUT", f"users/{uuid}", {"is_active": False})
    given = {"username": "u", "password": token}
    assert (await it.request("POST", "users/authenticate", given, token="")).status in (401, 403)
