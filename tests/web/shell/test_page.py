"""The page of a shell, and its tickets."""

from __future__ import annotations

from pathlib import Path

from tests.web.browsing import Browser, PageSite
from tests.web.shell.terminal_client import container


async def test_it_says_who_enters_where(here: PageSite, browser: Browser, tmp_path: Path) -> None:
    async with container(here, tmp_path) as (request, uuid, _):
        words = await browser.words(f"/ui/requests/{request}/shell")
        assert uuid in words
        assert "is not used for other requests" in words
        answer = await browser.get(f"/ui/requests/{request}/shell")
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'; style-src 'self' 'unsafe-inline';" in policy
        # Only a page with a terminal has it.
        other = await browser.get(f"/ui/requests/{request}")
        assert "unsafe-inline" not in other.headers["content-security-policy"]
        # Looking at it enters nothing.
        found = await here.world.ok("GET", f"containers/{uuid}")
        assert not found["interactive_session_started"]


async def test_one_that_does_not_run(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x")
    path = f"/ui/requests/{request['uuid']}/shell"
    assert "while the command runs" in await browser.words(path)
    answer = await browser.post(f"{path}/ticket", hx_request="true")
    assert (answer.status, b"not running yet" in answer.body) == (503, True)


async def test_who_may_not_enter(here: PageSite, tmp_path: Path) -> None:
    token = await here.world.user("jane")
    jane = await here.logged_in(token)
    async with container(here, tmp_path) as (request, *_):
        path = f"/ui/requests/{request}/shell"
        assert (await jane.get(path)).status == 404
        assert (await jane.post(f"{path}/ticket")).status == 404


async def test_a_ticket_needs_the_form(here: PageSite, browser: Browser, tmp_path: Path) -> None:
    async with container(here, tmp_path) as (request, *_):
        path = f"/ui/requests/{request}/shell/ticket"
        assert (await browser.post(path, {"form_token": "x"})).status == 403
        assert (await browser.post(path, {"login": "-o x"})).status == 422
