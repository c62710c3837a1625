"""The page with tokens."""

from __future__ import annotations

import re

import pytest

from tests.web.browsing import Browser, PageSite


async def _make(browser: Browser, **form: str) -> str:
    """The secret of a new token."""
    answer = await browser.post("/ui/tokens", {"days": "30", **form})
    assert answer.status == 200
    found = re.search(rb'value="(v2/[^"]+)"', answer.body)
    assert found
    assert answer.headers["cache-control"] == "no-store"
    return found[1].decode()


async def test_a_token_is_shown_once(here: PageSite, browser: Browser) -> None:
    secret = await _make(browser, rights="read")
    world = here.world
    assert (await world.request("GET", "users/current", token=secret)).status == 200
    assert (await world.request("POST", "collections", {}, token=secret)).status == 403
    text, words = await browser.text("/ui/tokens"), await browser.words("/ui/tokens")
    assert secret.split("/")[2] not in text
    assert "read everything" in words
    assert "this login" in words
    world.clock.advance(31 * 86400)
    assert (await world.request("GET", "users/current", token=secret)).status == 401


async def test_a_token_for_some_calls(here: PageSite, browser: Browser) -> None:
    secret = await _make(browser, rights="some", scopes="get users/current\n\nGET /x/", days="")
    uuid = secret.split("/")[1]
    made = await here.world.ok("GET", f"api_client_authorizations/{uuid}")
    assert made["scopes"] == ["GET /arvados/v1/users/current", "GET /x/"]
    assert made["expires_at"] is None
    assert "never" in await browser.words("/ui/tokens")


@pytest.mark.parametrize(
    "form",
    [{"rights": "x"}, {"rights": "some", "scopes": "burn"}, {"rights": "some"},
     {"rights": "all", "days": "0"}, {"rights": "all", "days": "-1"},
     {"rights": "all", "days": "99999"}],
)  # fmt: skip
async def test_tokens_that_are_refused(browser: Browser, form: dict[str, str]) -> None:
    assert (await browser.post("/ui/tokens", form)).status == 422


async def test_a_token_is_revoked(here: PageSite, browser: Browser) -> None:
    secret = await _make(browser, rights="all")
    answer = await browser.post(f"/ui/tokens/{secret.split('/')[1]}/revoke")
    assert answer.headers["location"] == "/ui/tokens"
    assert (await here.world.request("GET", "users/current", token=secret)).status == 401
    assert (await browser.post("/ui/tokens/x/revoke")).status == 404


async def test_admins_see_tokens_of_others(here: PageSite, browser: Browser) -> None:
    token = await here.world.user("jane")
    uuid = token.split("/")[1]
    jane = (await here.world.ok("GET", "users/current", token=token))["uuid"]
    text = await browser.text(f"/ui/tokens?owner={jane}")
    assert uuid in text
    assert token.split("/")[2] not in text
    assert "New token" not in text
    assert "jane" in await browser.words("/ui/tokens?owner=all")
    answer = await browser.post(f"/ui/tokens/{uuid}/revoke", {"owner": jane})
    assert answer.headers["location"] == f"/ui/tokens?owner={jane}"
    assert (await browser.get("/ui/tokens?owner=x")).status == 404


async def test_others_see_their_own_alone(here: PageSite) -> None:
    jane = await here.logged_in(await here.world.user("jane"))
    own = here.world.admin.split("/")[1]
    for path in ("/ui/tokens?owner=all", "/ui/tokens"):
        assert own not in await jane.text(path)
    assert (await jane.post(f"/ui/tokens/{own}/revoke")).status == 404
    assert (await here.world.request("GET", "users/current")).status == 200


async def test_tokens_that_have_ended_are_shown_on_demand(here: PageSite, browser: Browser) -> None:
    made = await here.world.ok(
        "POST", "api_client_authorizations", {"expires_at": "2026-01-01T00:00:00Z"}
    )
    endless = await here.world.ok("POST", "api_client_authorizations", {})
    short, whole = await browser.text("/ui/tokens"), await browser.text("/ui/tokens?ended=1")
    assert (made["uuid"] in short, made["uuid"] in whole) == (False, True)
    assert (endless["uuid"] in short, endless["uuid"] in whole) == (True, True)
    assert "ended=1" in short
