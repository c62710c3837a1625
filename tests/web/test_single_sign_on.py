"""Login at a provider of OpenID Connect: each answer once, in the browser that began."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from lading.testing.identity_provider import CLIENT, ISSUER, SECRET, FakeIdentityProvider
from tests.web.browsing import Browser, PageSite, page_site


@dataclass(slots=True, kw_only=True)
class SignOn:
    """A site, its provider, and a browser of nobody yet."""

    site: PageSite
    provider: FakeIdentityProvider
    browser: Browser

    async def begin(self, place: str = "") -> dict[str, str]:
        """Go to the provider and log in there; the parameters of its answer."""
        answer = await self.browser.get(f"/ui/openid_connect{place}")
        assert answer.status == 303
        return self.provider.log_in(answer.headers["location"])

    async def come_back(self, answer: dict[str, str], **changes: str) -> Response:
        """Come back with an answer of the provider, as its page leads there."""
        query = {**{name: answer[name] for name in ("code", "state")}, **changes}
        path = f"{urlsplit(answer['to']).path}?{urlencode(query)}"
        return await self.browser.get(path, sec_fetch_site="cross-site")


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[SignOn]:
    provider = FakeIdentityProvider(clock=lambda: 0.0)
    login = {"Enable": True, "Issuer": ISSUER, "ClientID": CLIENT, "ClientSecret": SECRET}
    async with page_site(
        tmp_path,
        connect=lambda _: AsgiTransport(provider),
        Login={"OpenIDConnect": login},
        Users={"NewUsersAreActive": True},
    ) as made:
        provider.clock = lambda: made.world.clock.moment.timestamp()
        yield SignOn(site=made, provider=provider, browser=made.browser())


async def test_a_login_and_its_end(on: SignOn) -> None:
    assert "/ui/openid_connect?next=" in await on.browser.text("/ui/login")
    on.provider.claims = {"name": "Jane <b>Doe"}
    answer = await on.come_back(await on.begin("?next=/ui/requests"))
    assert (answer.status, answer.headers["location"]) == (303, "/ui/requests")
    text = await on.browser.text("/ui/requests")
    assert "Jane &lt;b&gt;Doe" in text
    assert (await on.browser.get("/ui/openid_connect")).headers["location"] == "/ui/"
    cookies = dict(on.browser.cookies)
    tokens = (await on.site.world.ok("GET", "api_client_authorizations"))["items_available"]
    await on.browser.post("/ui/logout")
    left = (await on.site.world.ok("GET", "api_client_authorizations"))["items_available"]
    assert left == tokens - 1
    on.browser.cookies = cookies
    assert (await on.browser.get("/ui/")).status == 303


async def test_a_provider_that_refuses(on: SignOn) -> None:
    begun = await on.begin("?next=/ui/requests")
    answer = await on.come_back(begun, code="", error="access_denied", error_description="<b>no")
    assert answer.status == 403
    assert b"did not log you in: &lt;b&gt;no" in answer.body
    # The next try leads to where the first one was to lead.
    assert b"/ui/openid_connect?next=%2Fui%2Frequests" in answer.body
    assert (await on.browser.get("/ui/")).status == 303


async def test_an_answer_with_another_state(on: SignOn) -> None:
    answer = await on.come_back(await on.begin(), state="guessed")
    assert (answer.status, b"begun in another browser" in answer.body) == (403, True)
    assert on.provider.asked.count("/token") == 0


async def test_the_text_of_a_foreign_answer_is_not_shown(on: SignOn) -> None:
    path = "/ui/openid_connect/done?error=x&error_description=call+this+number"
    answer = await on.browser.get(path, sec_fetch_site="cross-site")
    assert (answer.status, b"number" in answer.body) == (403, False)


async def test_an_answer_in_another_browser(on: SignOn) -> None:
    begun = await on.begin()
    on.browser = on.site.browser()
    assert (await on.come_back(begun)).status == 403
    # Another login of that browser does not help.
    await on.begin()
    assert (await on.come_back(begun)).status == 403
    assert on.provider.asked.count("/token") == 0


async def test_an_answer_is_taken_once(on: SignOn) -> None:
    begun, cookies = await on.begin(), dict(on.browser.cookies)
    assert (await on.come_back(begun)).status == 303
    on.browser.cookies = cookies
    assert (await on.come_back(begun)).status == 403
    assert on.provider.asked.count("/token") == 1


async def test_an_answer_comes_too_late(on: SignOn) -> None:
    begun = await on.begin()
    on.site.world.clock.advance(601)
    assert (await on.come_back(begun)).status == 403


async def test_a_wrong_token(on: SignOn) -> None:
    on.provider.claims = {"aud": "other"}
    answer = await on.come_back(await on.begin())
    assert (answer.status, b"aud" in answer.body) == (401, True)
    assert (await on.browser.get("/ui/")).status == 303


async def test_a_user_who_is_not_active(on: SignOn) -> None:
    await on.come_back(await on.begin())
    user = next(
        one for one in (await on.site.world.ok("GET", "users"))["items"] if one["identity_url"]
    )
    await on.site.world.ok("PUT", f"users/{user['uuid']}", {"is_active": False})
    on.browser = on.site.browser()
    answer = await on.come_back(await on.begin())
    assert (answer.status, b"ask an admin" in answer.body) == (403, True)


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil", "/other"])
async def test_a_login_leads_to_the_page_alone(on: SignOn, place: str) -> None:
    answer = await on.come_back(await on.begin(f"?{urlencode({'next': place})}"))
    assert answer.headers["location"] == "/ui/"


async def test_a_provider_that_is_down(on: SignOn) -> None:
    on.provider.is_down = True
    answer = await on.browser.get("/ui/openid_connect")
    assert (answer.status, ISSUER.encode() in answer.body) == (503, True)
    on.provider.is_down = False
    begun = await on.begin()
    on.provider.is_down = True
    assert (await on.come_back(begun)).status == 503


async def test_no_secret_of_the_login_is_shown(on: SignOn) -> None:
    answer = await on.browser.get("/ui/openid_connect")
    place = answer.headers["location"]
    assert SECRET not in place
    assert "code_verifier" not in place
    kept = "".join(str(path) for path in on.site.directory.rglob("*"))
    assert on.browser.cookies["__Host-lading"] not in kept


async def test_without_a_provider(here: PageSite) -> None:
    browser = here.browser()
    assert "single sign-on" not in await browser.text("/ui/login")
    assert (await browser.get("/ui/openid_connect")).status == 404


async def test_a_logout_leads_to_the_provider(on: SignOn) -> None:
    on.provider.metadata = {"end_session_endpoint": f"{ISSUER}/end?realm=lab"}
    await on.come_back(await on.begin())
    answer = await on.browser.post("/ui/logout")
    place = answer.headers["refresh"].removeprefix("0; url=")
    query = dict(parse_qsl(urlsplit(place).query))
    assert place.startswith(f"{ISSUER}/end?realm=lab&")
    assert query["post_logout_redirect_uri"] == "https://127.0.0.1:9440/ui/login"
    assert (query["client_id"], query["id_token_hint"].count(".")) == (CLIENT, 2)
    assert b"Log out at the provider" in answer.body
    assert b"Jane" not in answer.body
    assert "__Host-lading" not in on.browser.cookies
    assert (await on.browser.get("/ui/")).status == 303


async def test_who_logged_in_with_a_token_does_not_go_to_the_provider(on: SignOn) -> None:
    on.provider.metadata = {"end_session_endpoint": f"{ISSUER}/end"}
    await on.browser.log_in(on.site.world.admin)
    answer = await on.browser.post("/ui/logout")
    assert (answer.status, answer.headers["location"]) == (303, "/ui/login")
    assert "refresh" not in answer.headers
