"""The page in a browser: sessions, links, frames and addresses, on a real server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.security.serving import Reply, Site, serving

pytestmark = pytest.mark.system
FORM = {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin"}
KNOWN = "f" * 64


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path / "data", Containers={"Dispatcher": "none"}) as made:
        yield made


async def _log_in(site: Site, token: str, **headers: str) -> Reply:
    answer = await site.call("POST", "/ui/login", data={"token": token}, **{**FORM, **headers})
    assert answer.status == 303, answer.text
    return answer


def _cookie(answer: Reply) -> str:
    (given,) = answer.headers["set-cookie"]
    return given.partition(";")[0]


async def _link(site: Site, token: str, place: str = "/ui/") -> str:
    answer = await site.call("POST", "/ui/links", token=token, data={"next": place})
    found = re.search(r"/ui/login/\w+", answer.text)
    assert found, answer.text
    return found[0]


@pytest.mark.attack("a script or another host reads or sets the cookie of the page")
@pytest.mark.quick
async def test_the_cookie_is_for_this_host_and_no_script(site: Site) -> None:
    (given,) = (await _log_in(site, await site.user("jane"))).headers["set-cookie"]
    name, *flags = [one.strip() for one in given.split(";")]
    # The prefix makes browsers refuse it from other hosts and without TLS (RFC 6265bis, 4.1.3.2).
    assert re.fullmatch(r"__Host-lading=[0-9a-f]{64}", name)
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(flags)
    assert "domain" not in given.lower()


@pytest.mark.attack("a session that is known before a login is used after it")
async def test_a_login_makes_a_new_session(site: Site) -> None:
    jane = await site.user("jane")
    planted = await _log_in(site, jane, Cookie=f"__Host-lading={KNOWN}")
    assert KNOWN not in _cookie(planted)
    assert (await site.call("GET", "/ui/", Cookie=f"__Host-lading={KNOWN}")).status == 303
    # One of the attacker's own, planted in the browser of the victim, ends with the login.
    own = _cookie(await _log_in(site, await site.user("mallory")))
    link = await _link(site, jane)
    entered = await site.call("GET", link, Cookie=own, Sec_Fetch_Site="none")
    assert _cookie(entered) != own
    assert (await site.call("GET", "/ui/", Cookie=own)).status == 303


@pytest.mark.attack("a link of a login is used twice, at once or later")
async def test_a_link_is_good_once(site: Site) -> None:
    link = await _link(site, await site.user("jane"))
    answers = await asyncio.gather(
        *(site.call("GET", link, Sec_Fetch_Site="none") for _ in range(10))
    )
    assert sorted(one.status for one in answers) == [303, *[403] * 9]
    assert (await site.call("GET", link, Sec_Fetch_Site="none")).status == 403


@pytest.mark.attack("a login leads to another host")
async def test_a_login_stays_here(site: Site) -> None:
    jane = await site.user("jane")
    for place in ("//evil.example", "https://evil.example/", "/\\evil.example", "/ui//evil", "/x"):
        form = {"token": jane, "next": place}
        answer = await site.call("POST", "/ui/login", data=form, **FORM)
        assert answer.headers["location"] == ["/ui/"]
        link = await _link(site, jane, place)
        answer = await site.call("GET", link, Sec_Fetch_Site="none")
        assert answer.headers["location"] == ["/ui/"]


@pytest.mark.attack("a page of another site shows ours in a frame, or reads its size")
async def test_no_frame_and_no_size(site: Site) -> None:
    cookie = _cookie(await _log_in(site, await site.user("jane")))
    for site_of in ("none", "cross-site"):
        answer = await site.call(
            "GET", "/ui/search?q=x", Cookie=cookie, Sec_Fetch_Site=site_of, Accept_Encoding="gzip"
        )
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"][0]
        assert answer.headers["cross-origin-opener-policy"] == ["same-origin"]
        assert answer.headers["cross-origin-resource-policy"] == ["same-origin"]
        # What another site can have a browser ask for is not compressed.
        assert ("content-encoding" in answer.headers) == (site_of == "none")


@pytest.mark.attack("a session goes on after its logout, or after its token was ended elsewhere")
async def test_a_logout_ends_the_token(site: Site) -> None:
    jane = await site.user("jane")
    cookie = _cookie(await _log_in(site, jane))
    page = await site.call("GET", "/ui/", Cookie=cookie)
    found = re.search(r'name="form_token" value="(\w+)"', page.text)
    assert found
    form = {"form_token": found[1]}
    assert (await site.call("POST", "/ui/logout", data=form, Cookie=cookie, **FORM)).status == 303
    assert (await site.call("GET", "/ui/", Cookie=cookie)).status == 303
    tokens = await site.call("GET", "/arvados/v1/api_client_authorizations", token=jane)
    assert tokens.text.count('"uuid":"') == 1
