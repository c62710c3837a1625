"""Addresses, headers and errors of the page."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.web.browsing import Browser, PageSite


async def test_without_a_session_the_login_comes_first(here: PageSite) -> None:
    answer = await here.browser().get("/ui/requests?state=Failed")
    assert answer.status == 303
    assert answer.headers["location"] == "/ui/login?next=%2Fui%2Frequests%3Fstate%3DFailed"


async def test_a_form_that_comes_after_the_session_leads_back_to_its_page(here: PageSite) -> None:
    browser = here.browser()
    referer = "https://localhost/ui/requests/submit"
    answer = await browser.post("/ui/requests/submit", referer=referer)
    assert answer.status == 303
    assert answer.headers["location"] == "/ui/login?next=%2Fui%2Frequests%2Fsubmit&unsent=1"
    assert "fill in the form again" in await browser.words(answer.headers["location"])
    assert "fill in the form again" not in await browser.words("/ui/login")


async def test_every_answer_has_the_headers(here: PageSite, browser: Browser) -> None:
    for path in ("/ui/", "/ui/login", "/ui/none", "/ui/static/page.css", "/ui/static/none.css"):
        headers = (await browser.get(path)).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


async def test_pages_are_not_kept(browser: Browser) -> None:
    assert (await browser.get("/ui/")).headers["cache-control"] == "no-store"


async def test_an_unknown_address_is_a_page(browser: Browser) -> None:
    answer = await browser.get("/ui/none")
    assert answer.status == 404
    assert b"There is no page at this address" in answer.body


async def test_a_record_that_is_not_there_is_told_in_plain_words(browser: Browser) -> None:
    for path, kind in (("requests/zzzzz-xvhdp", "request"), ("projects/zzzzz-j7d0g", "project")):
        uuid = f"{path.rpartition('/')[2]}-{'9' * 15}"
        words = await browser.words(f"/ui/{path}-{'9' * 15}")
        assert f"There is no {kind} {uuid}, or you may not see it." in words
    assert (await browser.post("/ui/now")).status == 405


async def test_a_part_of_a_page_has_no_frame(browser: Browser) -> None:
    answer = await browser.get("/ui/requests/none", hx_request="true")
    assert answer.status == 404
    assert b"<html" not in answer.body


async def test_a_page_is_loaded_again_when_its_record_is_gone(
    here: PageSite, browser: Browser
) -> None:
    request = await here.world.submit("x")
    path = f"/ui/requests/{request['uuid']}"
    await here.world.ok("DELETE", f"container_requests/{request['uuid']}")
    for part in ("state", "results"):
        answer = await browser.get(f"{path}/{part}", hx_request="true")
        assert (answer.status, answer.headers["hx-refresh"]) == (204, "true")
    # No reload without end: the page itself is refused.
    assert (await browser.get(path)).status == 404
    # What a form sends is answered with the reason.
    answer = await browser.post(f"{path}/cancel")
    assert (answer.status, "hx-refresh" in answer.headers) == (404, False)


async def test_a_collection_in_the_trash_leads_to_the_trash(
    here: PageSite, browser: Browser
) -> None:
    uuid = await here.files.collection({"a": b"a"})
    await here.world.ok("DELETE", f"collections/{uuid}")
    text = await browser.text(f"/ui/collections/{uuid}")
    assert f"The collection {uuid} is in the trash. Restore it there to see it." in text
    assert '<a class="button main" href="/ui/trash">' in text


async def test_an_ended_session_sends_a_part_of_a_page_to_the_login(here: PageSite) -> None:
    answer = await here.browser().get("/ui/now", hx_request="true")
    assert (answer.status, answer.headers["hx-refresh"]) == (204, "true")


async def test_a_token_that_was_ended_elsewhere(here: PageSite, browser: Browser) -> None:
    tokens = await here.world.ok("GET", "api_client_authorizations")
    for one in tokens["items"]:
        if not one["uuid"].endswith("a" * 15):
            await here.world.request("DELETE", f"api_client_authorizations/{one['uuid']}")
    answer = await browser.get("/ui/")
    assert answer.headers["location"].startswith("/ui/login")
    assert browser.cookies == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "", "origin": "https://evil.example"},
        {"sec_fetch_site": "", "origin": "null"},
    ],
)
async def test_a_form_of_another_site(browser: Browser, headers: dict[str, str]) -> None:
    answer = await browser.post("/ui/logout", None, **headers)
    assert answer.status == 403
    assert (await browser.get("/ui/")).status == 200


async def test_a_form_without_its_token(browser: Browser) -> None:
    assert (await browser.post("/ui/logout", {"form_token": "0" * 64})).status == 403
    assert (await browser.get("/ui/")).status == 200


async def test_forms_have_limits(browser: Browser) -> None:
    assert (await browser.post("/ui/logout", {"x": "y" * 70_000})).status == 413
    assert (await browser.post("/ui/logout", content_type="application/json")).status == 400


async def test_a_fault_of_ours_is_a_page_and_no_secret_is_logged(
    here: PageSite, caplog: pytest.LogCaptureFixture
) -> None:
    (here.directory / "links").mkdir(parents=True, exist_ok=True)
    secret = "5" * 64
    name = hashlib.sha256(f"name {secret}".encode()).hexdigest()
    # A directory in place of a file: removing it fails.
    (here.directory / "links" / name).mkdir()
    answer = await here.browser().get(f"/ui/login/{secret}")
    assert answer.status == 500
    assert b"internal error" in answer.body
    assert secret not in caplog.text.partition("Traceback")[0]
    assert "page=/ui/login/" in caplog.text


NAVIGATES = {"sec_fetch_mode": "navigate"}


async def test_a_browser_can_come_back_to_the_answer_to_a_form(
    here: PageSite, browser: Browser
) -> None:
    form = {"command": "echo it's", "image": "tools:1", "vcpus": "1", "ram": "1 GiB"}
    answer = await browser.post("/ui/requests/submit", form, **NAVIGATES)
    place = answer.headers["location"]
    assert (answer.status, place.startswith("/ui/answers/")) == (303, True)
    for _ in range(2):
        page = await browser.get(place)
        assert page.status == 200
        assert b"No closing quotation" in page.body
    # The form that is shown again can be sent.
    token = re.search(rb'name="form_token" value="(\w+)"', page.body)
    assert token
    sent = {"form_token": token[1].decode(), **form}
    assert (await browser.post("/ui/requests/submit", sent)).status == 422
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await jane.get(place)).status == 404
    assert (await here.browser().get(place)).headers["location"].startswith("/ui/login")


async def test_an_error_that_answers_a_form_has_an_address(browser: Browser) -> None:
    answer = await browser.post("/ui/tokens", {"rights": "x"}, **NAVIGATES)
    assert b"choose one of" in (await browser.get(answer.headers["location"])).body


async def test_a_secret_is_shown_once(browser: Browser) -> None:
    answer = await browser.post("/ui/tokens", {"rights": "read", "days": "1"}, **NAVIGATES)
    assert answer.status == 200
    assert b"v2/" in answer.body
