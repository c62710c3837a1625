"""Users that are made at their first login, their groups, and their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.core.records.schema import Record
from lading.testing.identity_provider import ISSUER
from lading.testing.world import World, world
from tests.api.logins.logging_in import login_world, token_of

MAIL: dict[str, Any] = {"email": "jane@example.org", "email_verified": True, "name": "Jane Doe"}


async def _role(it: World, name: str) -> str:
    made = await it.ok("POST", "groups", {"name": name, "group_class": "role"})
    return str(made["uuid"])


async def _members(it: World, role: str) -> list[Record]:
    filters = [["head_uuid", "=", role], ["link_class", "=", "permission"]]
    found: list[Record] = (await it.ok("GET", "links", params={"filters": filters}))["items"]
    return found


async def test_the_first_login_makes_a_user(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        here.provider.claims = MAIL
        user = await here.user()
        assert (user["email"], user["username"], user["full_name"]) == (
            "jane@example.org", "jane", "Jane Doe",
        )  # fmt: skip
        assert (user["is_active"], user["is_admin"]) == (True, False)
        # The second one is of the same user, whatever else the provider says by then.
        here.provider.claims = {"email": "other@example.org", "email_verified": True}
        again = await here.user()
        assert (again["uuid"], again["email"]) == (user["uuid"], "jane@example.org")
        assert user["identity_url"] == f"{ISSUER}#jane"


async def test_an_account_is_never_found_by_its_email(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        await here.world.user("jane")
        here.provider.claims = MAIL | {"preferred_username": "jane"}
        user = await here.user()
        assert (user["username"], user["email"]) == ("jane2", None)
        here.provider.claims = MAIL | {"sub": "second", "email_verified": False}
        assert (await here.user())["uuid"] != user["uuid"]


async def test_a_new_user_waits_for_an_admin(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        here.provider.claims = MAIL
        user = await here.user()
        await here.world.ok("PUT", f"users/{user['uuid']}", {"is_active": False})
        reply = await here.finish()
        assert (reply.status, "ask an admin" in reply.error) == (403, True)
        await here.world.ok("POST", f"users/{user['uuid']}/activate")
        assert (await here.finish()).status == 200


async def test_the_token_ends(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        token = token_of(await here.finish())
        assert (await here.world.request("GET", "users/current", token=token)).status == 200
        here.world.clock.advance(7 * 86400 + 1)
        assert (await here.world.request("GET", "users/current", token=token)).status == 401


async def test_groups_give_and_take_roles(tmp_path: Path) -> None:
    roles: dict[str, str] = {}
    async with login_world(tmp_path, GroupsClaim="groups", Groups=roles) as here:
        settings = here.world.config.Login.OpenIDConnect.Groups
        settings |= {name: await _role(here.world, name) for name in ("a", "b")}
        settings["gone"] = "zzzzz-j7d0g-aaaaaaaaaaaaaaa"
        here.provider.claims = MAIL | {"groups": ["a", "gone", "unknown"]}
        user = await here.user()
        assert [one["tail_uuid"] for one in await _members(here.world, settings["a"])] == [
            user["uuid"]
        ]
        assert await _members(here.world, settings["b"]) == []
        here.provider.claims = MAIL | {"groups": ["b"]}
        await here.user()
        assert await _members(here.world, settings["a"]) == []
        assert len(await _members(here.world, settings["b"])) == 1


async def test_what_an_admin_gave_stays(tmp_path: Path) -> None:
    async with login_world(tmp_path, GroupsClaim="groups", Groups={}) as here:
        role = await _role(here.world, "a")
        here.world.config.Login.OpenIDConnect.Groups["a"] = role
        here.provider.claims = {"groups": []}
        user = await here.user()
        link = {
            "link_class": "permission", "name": "can_read", "tail_uuid": user["uuid"],
            "head_uuid": role,
        }  # fmt: skip
        await here.world.ok("POST", "links", link)
        await here.user()
        assert len(await _members(here.world, role)) == 1


async def test_a_group_of_admins(tmp_path: Path) -> None:
    async with login_world(tmp_path, GroupsClaim="groups", AdminGroup="root") as here:
        here.provider.claims = {"groups": ["root"]}
        assert (await here.user())["is_admin"]
        here.provider.claims = {"groups": "none"}
        assert not (await here.user())["is_admin"]


async def test_a_group_that_all_must_be_in(tmp_path: Path) -> None:
    async with login_world(tmp_path, GroupsClaim="groups", RequiredGroup="lab") as here:
        assert (await here.finish()).status == 403
        here.provider.claims = {"groups": ["lab"]}
        assert (await here.finish()).status == 200
        users = (await here.world.ok("GET", "users"))["items"]
        assert len([one for one in users if one["identity_url"]]) == 1


async def test_a_user_who_was_merged(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        old = await here.user()
        await here.world.user("joe")
        new = (await here.world.ok("GET", "users/current", token=here.world.tokens["joe"]))["uuid"]
        await here.world.ok(
            "POST", "users/merge",
            {"old_user_uuid": old["uuid"], "new_user_uuid": new, "new_owner_uuid": new,
             "redirect_to_new_user": True},
        )  # fmt: skip
        assert (await here.user())["uuid"] == new


async def test_an_identity_that_an_admin_gives(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        await here.world.user("joe")
        joe = (await here.world.ok("GET", "users/current", token=here.world.tokens["joe"]))["uuid"]
        await here.world.ok("PUT", f"users/{joe}", {"identity_url": f"{ISSUER}#jane"})
        assert (await here.user())["uuid"] == joe
        # The user that the identity would have is not made twice.
        await here.world.ok("PUT", f"users/{joe}", {"identity_url": None})
        made = await here.user()
        await here.world.ok("PUT", f"users/{made['uuid']}", {"identity_url": "x"})
        assert (await here.user())["uuid"] not in (made["uuid"], joe)


@pytest.mark.parametrize("field", ["code", "nonce", "code_verifier"])
async def test_fields_that_are_not_there(tmp_path: Path, field: str) -> None:
    async with login_world(tmp_path) as here:
        for value in ("", None, 5, "x" * 9000):
            assert (await here.finish(**{field: value})).status == 422


async def test_without_a_provider(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for name in ("begin", "finish"):
            assert (await it.request("POST", f"openid_connect/{name}", token="")).status == 404
        shown = await it.ok("GET", "config")
        assert shown["Login"]["OpenIDConnect"] == {"Enable": False}


async def test_the_exported_configuration_has_no_secret(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        text = (await here.world.request("GET", "config", token="")).body.decode()
        assert '"OpenIDConnect":{"Enable":true}' in text
        assert "client secret" not in text


async def test_an_installation_without_an_address(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        object.__setattr__(here.world.app.services.config, "ExternalURL", "")
        reply = await here.world.request("POST", "openid_connect/begin", token="")
        assert (reply.status, "ExternalURL" in reply.error) == (422, True)
