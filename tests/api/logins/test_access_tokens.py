"""Access tokens of the provider in place of tokens of this server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lading.testing.identity_provider import ISSUER
from tests.api.logins.logging_in import LoginWorld, login_world

JANE = "access-token-of-jane-1"


def _jwt(**claims: Any) -> str:
    parts = (b'{"alg":"ES256"}', msgspec.json.encode(claims), b"signature")
    return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LoginWorld]:
    async with login_world(tmp_path, AcceptAccessToken=True) as made:
        made.provider.holders[JANE] = {"sub": "jane", "preferred_username": "jane"}
        yield made


async def _status(here: LoginWorld, token: str) -> int:
    return (await here.world.request("GET", "users/current", token=token)).status


def _asked(here: LoginWorld) -> int:
    return here.provider.asked.count("/userinfo")


async def test_a_program_sends_an_access_token(here: LoginWorld) -> None:
    user = await here.world.ok("GET", "users/current", token=JANE)
    assert (user["identity_url"], user["username"]) == (f"{ISSUER}#jane", "jane")
    # The same user as at a login with a browser, and the provider is asked once.
    assert (await here.user())["uuid"] == user["uuid"]
    before = _asked(here)
    made = await here.world.ok("POST", "collections", {"name": "x"}, token=JANE)
    assert made["owner_uuid"] == user["uuid"]
    assert _asked(here) == before


async def test_the_provider_is_asked_again_after_ten_minutes(here: LoginWorld) -> None:
    assert await _status(here, JANE) == 200
    here.world.clock.advance(599)
    assert (await _status(here, JANE), _asked(here)) == (200, 1)
    here.world.clock.advance(2)
    assert (await _status(here, JANE), _asked(here)) == (200, 2)
    here.world.clock.advance(601)
    del here.provider.holders[JANE]
    assert (await _status(here, JANE), _asked(here)) == (401, 3)


async def test_a_token_ends_with_its_own_end(here: LoginWorld) -> None:
    token = _jwt(exp=here.world.clock.moment.timestamp() + 60)
    here.provider.holders[token] = {"sub": "jane"}
    assert await _status(here, token) == 200
    del here.provider.holders[token]
    here.world.clock.advance(61)
    assert await _status(here, token) == 401


async def test_an_unknown_token_is_asked_about_once_a_minute(here: LoginWorld) -> None:
    for _ in range(3):
        assert await _status(here, "nobody-knows-this-one") == 401
    assert _asked(here) == 1
    here.world.clock.advance(61)
    assert (await _status(here, "nobody-knows-this-one"), _asked(here)) == (401, 2)


@pytest.mark.parametrize(
    "token", ["b" * 50, "v2/zzzzz-gj3su-aaaaaaaaaaaaaaa/" + "b" * 50, "short", "x" * 9000]
)
async def test_what_is_no_access_token_is_not_told_to_the_provider(
    here: LoginWorld, token: str
) -> None:
    assert (await _status(here, token), _asked(here)) == (401, 0)


async def test_a_provider_that_is_down_is_no_wrong_token(here: LoginWorld) -> None:
    here.provider.is_down = True
    assert await _status(here, JANE) == 503
    here.provider.is_down = False
    assert await _status(here, JANE) == 200


async def test_many_calls_at_once(here: LoginWorld) -> None:
    assert await asyncio.gather(*(_status(here, JANE) for _ in range(30))) == [200] * 30
    filters = [["expires_at", "!=", None]]
    found = await here.world.ok("GET", "api_client_authorizations", params={"filters": filters})
    assert found["items_available"] == 1


async def test_another_person_gets_the_account(here: LoginWorld) -> None:
    first = await here.world.ok("GET", "users/current", token=JANE)
    await here.world.ok("PUT", f"users/{first['uuid']}", {"identity_url": "moved"})
    here.world.clock.advance(601)
    second = await here.world.ok("GET", "users/current", token=JANE)
    assert second["uuid"] != first["uuid"]


async def test_an_inactive_user_may_not_work(here: LoginWorld) -> None:
    user = await here.world.ok("GET", "users/current", token=JANE)
    await here.world.ok("PUT", f"users/{user['uuid']}", {"is_active": False})
    assert (await here.world.request("GET", "collections", token=JANE)).status == 403


async def test_the_required_group(tmp_path: Path) -> None:
    settings = {"AcceptAccessToken": True, "GroupsClaim": "groups", "RequiredGroup": "lab"}
    async with login_world(tmp_path, **settings) as here:
        here.provider.holders = {JANE: {"groups": ["other"]}, JANE + "2": {"groups": ["lab"]}}
        assert await _status(here, JANE) == 401
        assert await _status(here, JANE + "2") == 200


async def test_the_scope_of_a_token(tmp_path: Path) -> None:
    async with login_world(
        tmp_path, AcceptAccessToken=True, AcceptAccessTokenScope="lading"
    ) as here:
        good = [_jwt(scope="openid lading"), _jwt(scope=["lading"])]
        bad = [_jwt(scope="openid ladings"), _jwt(sub="jane"), JANE, "a.b.c-with-16-chars-and-more"]
        here.provider.holders = {one: {} for one in (*good, *bad)}
        assert [await _status(here, one) for one in good] == [200, 200]
        assert [await _status(here, one) for one in bad] == [401] * 4


async def test_without_the_setting(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        here.provider.holders[JANE] = {}
        assert (await _status(here, JANE), _asked(here)) == (401, 0)


async def test_a_provider_without_userinfo(here: LoginWorld) -> None:
    here.provider.metadata = {"userinfo_endpoint": None}
    assert await _status(here, JANE) == 401


async def test_the_token_is_in_no_record(here: LoginWorld) -> None:
    await here.world.ok("GET", "users/current", token=JANE)
    found = await here.world.ok("GET", "api_client_authorizations")
    assert JANE not in msgspec.json.encode(found).decode()
