"""Users being set up, let in and shut out."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON
from lading.testing.world import World, world
from tests.api.sharing_world import group, share, status, uuid_of

EVERYBODY = "zzzzz-j7d0g-fffffffffffffff"


async def links_of(it: World, user: str) -> set[tuple[str, str, str]]:
    found = await it.ok(
        "GET", "links", params={"filters": [["link_class", "=", "permission"]], "limit": 1000}
    )
    ends = ((one["tail_uuid"], one["name"], one["head_uuid"]) for one in found["items"])
    return {one for one in ends if user in one}


async def test_active_users_are_set_up(it: World) -> None:
    user = await uuid_of(it, "u")
    expected = {(user, "can_write", EVERYBODY), (EVERYBODY, "can_read", user)}
    assert await links_of(it, user) == expected
    idle = await it.ok("POST", "users", {"username": "idle", "is_active": False})
    assert (await links_of(it, idle["uuid"]), idle["is_invited"]) == (set(), False)
    active = await it.ok("PUT", f"users/{idle['uuid']}", {"is_active": True})
    assert (len(await links_of(it, idle["uuid"])), active["is_invited"]) == (2, True)


async def test_setup_makes_and_finds_users(it: World) -> None:
    made = await it.ok(
        "POST", "users/setup", {"user": {"email": "x@example.org", "is_active": False}}
    )
    assert [one["kind"] for one in made["items"]] == ["arvados#user", "arvados#link"]
    user = made["items"][0]
    assert (user["is_active"], user["is_invited"]) == (False, True)
    again = await it.ok("POST", "users/setup", {"user": {"email": "x@example.org"}})
    by_uuid = await it.ok("POST", "users/setup", {"uuid": user["uuid"]})
    assert again["items"][1:] == by_uuid["items"][1:] == made["items"][1:]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 422),
        ({"user": {"username": "x"}}, 422),
        ({"user": 5}, 400),
        ({"uuid": "zzzzz-tpzed-000000000000009"}, 404),
    ],
)
async def test_setup_faults(it: World, body: JSON, expected: int) -> None:
    assert await status(it, "POST", "users/setup", body) == expected


async def test_the_invited_let_themselves_in(it: World) -> None:
    user = (await it.ok("POST", "users", {"username": "new", "is_active": False}))["uuid"]
    token = await it.ok("POST", "api_client_authorizations", {"owner_uuid": user})
    text = f"v2/{token['uuid']}/{token['api_token']}"
    assert await status(it, "POST", f"users/{user}/activate", token=text) == 403
    await it.ok("POST", "users/setup", {"uuid": user})
    assert await status(it, "GET", "collections", token=text) == 403
    assert (await it.ok("POST", f"users/{user}/activate", token=text))["is_active"]
    assert await status(it, "GET", "collections", token=text) == 200
    assert await status(it, "POST", f"users/{user}/activate", token=await it.user("u")) == 403


async def test_unsetup_takes_everything_away(it: World) -> None:
    token, user = await it.user("u"), await uuid_of(it, "u")
    project = await group(it, "p")
    await share(it, user, project["uuid"], "can_read")
    gone = await it.ok("POST", f"users/{user}/unsetup")
    assert (gone["is_active"], gone["is_invited"], gone["prefs"]) == (False, False, {})
    assert await links_of(it, user) == {(EVERYBODY, "can_read", user)}
    assert await status(it, "GET", "users/current", token=token) == 401
    assert await status(it, "POST", "users/zzzzz-tpzed-000000000000000/unsetup") == 422


async def test_batch_update(it: World) -> None:
    user = await uuid_of(it, "u")
    updates = {user: {"first_name": "U"}, "zzzzz-tpzed-000000000000007": {"username": "seven"}}
    found = await it.ok("PATCH", "users/batch_update", {"updates": updates})
    assert [one["first_name"] for one in found["items"]] == ["U", ""]
    assert (await it.ok("GET", "users/zzzzz-tpzed-000000000000007"))["is_invited"]
    for updates_ in (None, {user: 5}):
        assert await status(it, "PATCH", "users/batch_update", {"updates": updates_}) == 400
    assert await status(it, "PATCH", "users/batch_update", {"updates": {"nonsense": {}}}) == 422


async def test_only_admins(it: World) -> None:
    token, user = await it.user("u"), await uuid_of(it, "u")
    for method, path in (
        ("POST", "users/setup"),
        ("POST", f"users/{user}/unsetup"),
        ("PATCH", "users/batch_update"),
    ):
        assert await status(it, method, path, token=token) == 403


async def test_hidden_users(tmp_path: object) -> None:
    async with world(tmp_path, Users={"ActivatedUsersAreVisibleToOthers": False}) as it:  # type: ignore[arg-type]
        user = await uuid_of(it, "u")
        assert await links_of(it, user) == {(user, "can_write", EVERYBODY)}
        assert await status(it, "GET", f"users/{user}", token=await it.user("v")) == 404
