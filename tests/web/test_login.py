"""Login by token and by one-time link, and logout."""

from __future__ import annotations

import msgspec
import pytest

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from tests.web.browsing import Browser, PageSite


async def _link(here: PageSite, token: str, body: bytes = b"") -> Response:
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/x-www-form-urlencoded",
    }
    return await AsgiTransport(here.app).request("POST", "/ui/links", headers=headers, body=body)


async def _path(here: PageSite, body: bytes = b"") -> str:
    answer = await _link(here, here.world.admin, body)
    assert answer.status == 200
    return str(msgspec.json.decode(answer.body)["path"])


async def test_login_by_token(here: PageSite) -> None:
    browser = here.browser()
    answer = await browser.post("/ui/login", {"token": f" {here.world.admin} ", "next": "/ui/x"})
    assert (answer.status, answer.headers["location"]) == (303, "/ui/x")
    kept = answer.headers["set-cookie"]
    assert kept.startswith("__Host-lading=")
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} <= set(kept.split("; "))
    assert (await browser.get("/ui/login")).headers["location"] == "/ui/"


async def test_the_session_has_a_token_of_its_own_that_ends_with_it(here: PageSite) -> None:
    async def tokens() -> int:
        return len((await here.world.ok("GET", "api_client_authorizations"))["items"])

    before = await tokens()
    browser = await here.logged_in()
    assert await tokens() == before + 1
    cookies = dict(browser.cookies)
    answer = await browser.post("/ui/logout")
    assert answer.headers["location"] == "/ui/login"
    assert await tokens() == before
    # The cookie of before is worthless.
    browser.cookies = cookies
    assert (await browser.get("/ui/")).status == 303


async def test_a_token_of_limited_scope_is_used_as_it_is(here: PageSite) -> None:
    scopes = ["GET /arvados/v1/users/current", "GET /arvados/v1/container_requests"]
    made = await here.world.ok("POST", "api_client_authorizations", {"scopes": scopes})
    browser = await here.logged_in(f"v2/{made['uuid']}/{made['api_token']}")
    await browser.post("/ui/logout")
    assert await here.world.ok("GET", f"api_client_authorizations/{made['uuid']}")


@pytest.mark.parametrize("token", ["", "x", "v2/a/b", "\x00", "ü"])
async def test_a_token_that_is_none(here: PageSite, token: str) -> None:
    browser = here.browser()
    answer = await browser.post("/ui/login", {"token": token})
    assert answer.status == 401
    assert b"This token was refused" in answer.body
    assert browser.cookies == {}


async def test_a_browser_can_come_back_to_a_refused_login(here: PageSite) -> None:
    browser = here.browser()
    form = {"token": "x", "next": "/ui/images"}
    answer = await browser.post("/ui/login", form, sec_fetch_mode="navigate")
    assert answer.status == 303
    page = await browser.text(answer.headers["location"])
    assert "This token was refused" in page
    assert 'name="next" value="/ui/images"' in page


async def test_a_login_that_another_site_sends(here: PageSite) -> None:
    form = {"token": here.world.admin}
    answer = await here.browser().post("/ui/login", form, sec_fetch_site="cross-site")
    assert answer.status == 403


async def test_a_link_logs_in_once(here: PageSite) -> None:
    path = await _path(here, b"next=%2Fui%2Frequests%2Fx")
    assert here.world.admin not in path
    browser = here.browser()
    assert (await browser.get(path)).headers["location"] == "/ui/requests/x"
    assert (await browser.get("/ui/")).status == 200
    second = await here.browser().get(path)
    assert second.status == 403
    assert b"used already" in second.body


async def test_a_link_is_soon_too_old(here: PageSite) -> None:
    path = await _path(here)
    here.world.clock.advance(61)
    assert (await here.browser().get(path)).status == 403


async def test_a_link_that_another_site_opens_asks_first(here: PageSite) -> None:
    path, browser = await _path(here), here.browser()
    answer = await browser.get(path, sec_fetch_site="cross-site")
    assert answer.status == 200
    assert browser.cookies == {}
    assert (await browser.post(path)).status == 303


async def test_only_holders_of_a_token_make_links(here: PageSite) -> None:
    assert (await _link(here, "x")).status == 401
    answer = await AsgiTransport(here.app).request("POST", "/ui/links", headers={})
    assert answer.status == 401


async def test_a_new_login_ends_the_session_before_it(here: PageSite, browser: Browser) -> None:
    old = dict(browser.cookies)
    await browser.get(await _path(here))
    assert browser.cookies != old
    browser.cookies = old
    assert (await browser.get("/ui/")).status == 303
