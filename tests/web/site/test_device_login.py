"""The page on which a person allows a program to log in."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from lading.core.policy.device_logins import code_of, digest_of
from tests.web.browsing import Browser, PageSite

SECRET = "5ec2e7" * 10
DIGEST = digest_of(SECRET)


def address(name: str = "lading of ann on laptop") -> str:
    return f"/ui/device?{urlencode({'digest': DIGEST, 'name': name})}"


async def test_a_login_is_allowed(here: PageSite, browser: Browser) -> None:
    words = await browser.words(address())
    assert code_of(DIGEST) in words
    assert "lading of ann on laptop" in words
    world = here.world
    assert (await world.request("GET", "users/current", token=SECRET)).status == 401
    answer = await browser.post("/ui/device", {"digest": DIGEST, "rights": "read", "days": "1"})
    assert answer.status == 200
    assert SECRET.encode() not in answer.body
    user = await world.ok("GET", "users/current", token=SECRET)
    assert user["uuid"] == (await world.ok("GET", "users/current"))["uuid"]
    assert (await world.request("POST", "collections", {}, token=SECRET)).status == 403
    world.clock.advance(2 * 86400)
    assert (await world.request("GET", "users/current", token=SECRET)).status == 401


async def test_a_login_is_allowed_once(browser: Browser) -> None:
    form = {"digest": DIGEST, "rights": "all", "days": "", "name": "laptop"}
    assert (await browser.post("/ui/device", form)).status == 200
    again = await browser.post("/ui/device", form)
    assert again.status == 409
    assert b"was allowed before" in again.body


@pytest.mark.parametrize(
    "form",
    [{"digest": "x", "rights": "all"}, {"digest": DIGEST, "rights": "some"},
     {"digest": DIGEST, "rights": "all", "days": "0"}],
)  # fmt: skip
async def test_forms_that_are_refused(browser: Browser, form: dict[str, str]) -> None:
    assert (await browser.post("/ui/device", form)).status == 422


async def test_an_address_without_a_login_is_refused(browser: Browser) -> None:
    assert (await browser.get("/ui/device")).status == 422


async def test_the_name_of_a_program_is_text(browser: Browser) -> None:
    text = await browser.text(address("<b>Lading</b>\u202e"))
    assert "<b>Lading" not in text
    assert "\u202e" not in text


async def test_who_is_not_logged_in_logs_in_first(here: PageSite) -> None:
    answer = await here.browser().get(address())
    assert answer.status == 303
    assert answer.headers["location"].startswith("/ui/login?next=%2Fui%2Fdevice%3Fdigest%3D")
