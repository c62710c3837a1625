"""A shell in a container over the websocket of the page; the gateway is real, the container is a
process of this machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.testing.engine import StubEngine
from lading.web.open_shells import ShellChecks
from tests.api.container_access.test_shell_sessions import rows
from tests.web.browsing import Browser, PageSite, page_site
from tests.web.shell.terminal_client import connected, container, ticket_for


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[PageSite]:
    """A site that looks often whether the login of a shell still is."""
    async with page_site(tmp_path, shell_checks=ShellChecks(session=0.01)) as made:
        yield made


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[PageSite]:
    """A site that asks often whether the user of a shell may still enter."""
    async with page_site(tmp_path, shell_checks=ShellChecks(permission=0.01)) as made:
        yield made


async def test_a_command_is_typed_and_recorded(
    here: PageSite, browser: Browser, tmp_path: Path
) -> None:
    async with container(here, tmp_path) as (request, uuid, gateway):
        ticket = await ticket_for(browser, request, "nobody")
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=91, rows=31)
            terminal.type("stty size; echo $((6*7)).; exit 5\r")
            await terminal.until(b"42.")
            assert b"31 91" in terminal.output
            assert await terminal.end() == "The shell has ended with exit code 5."
        assert isinstance(gateway.engine, StubEngine)
        assert gateway.engine.users == ["nobody"]
        assert [one["event_type"] for one in await rows(here.world, uuid, "shell")] == ["shell"]
        found = await here.world.ok("GET", f"containers/{uuid}")
        assert found["interactive_session_started"]


async def test_the_window_changes_its_size(
    here: PageSite, browser: Browser, tmp_path: Path
) -> None:
    async with container(here, tmp_path) as (request, *_):
        ticket = await ticket_for(browser, request)
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=80, rows=24)
            terminal.type("stty -echo; trap 'stty size' WINCH; echo rea''dy\r")
            await terminal.until(b"ready")
            terminal.say(columns=0, rows=5000)
            terminal.say(columns=70, rows=20)
            terminal.type("\r")
            await terminal.until(b"20 70")


async def test_a_slow_browser_slows_the_command_down(
    here: PageSite, browser: Browser, tmp_path: Path
) -> None:
    async with container(here, tmp_path) as (request, *_):
        ticket = await ticket_for(browser, request)
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=80, rows=24)
            terminal.type("head -c 3000000 /dev/zero | tr '\\0' x; echo en''d\r")
            while len(terminal.output) < 1 << 18:
                await terminal.read()
            with pytest.raises(TimeoutError):
                await terminal.read(0.3)
            assert len(terminal.output) < (1 << 18) + (1 << 15)
            while b"end" not in terminal.output:
                terminal.say(shown=len(terminal.output))
                await terminal.read()


@pytest.mark.parametrize("origin", ["", "https://evil.example", "http://localhost:1", "null"])
async def test_another_site_opens_nothing(
    here: PageSite, browser: Browser, tmp_path: Path, origin: str
) -> None:
    async with container(here, tmp_path) as (request, *_):
        async with connected(browser, request, origin=origin) as terminal:
            assert not await terminal.read()
        async with connected(browser, request, cookie="") as terminal:
            assert not await terminal.read()
        async with connected(browser, f"{request}/x") as terminal:
            assert not await terminal.read()


async def test_a_ticket_is_good_once_for_its_session_and_request(
    here: PageSite, browser: Browser, tmp_path: Path
) -> None:
    async with container(here, tmp_path) as (request, uuid, _):
        ticket = await ticket_for(browser, request)
        other = await here.logged_in()
        for who, where in ((other, request), (browser, request)):
            # The first one takes it, though it is not its own.
            async with connected(who, where) as terminal:
                terminal.say(ticket=ticket, columns=80, rows=24)
                assert "not yours" in await terminal.end()
        ticket = await ticket_for(browser, request)
        async with connected(browser, "zzzzz-xvhdp-000000000000000") as terminal:
            terminal.say(ticket=ticket)
            assert "not yours" in await terminal.end()
        assert await rows(here.world, uuid, "shell") == []


async def test_an_old_ticket(here: PageSite, browser: Browser, tmp_path: Path) -> None:
    async with container(here, tmp_path) as (request, *_):
        ticket = await ticket_for(browser, request)
        here.world.clock.advance(31)
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=80, rows=24)
            assert "too old" in await terminal.end()


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"ticket": 5}', "x" * 70_000, '{"a":' * 2_000])
async def test_what_is_no_message(
    here: PageSite, browser: Browser, tmp_path: Path, text: str
) -> None:
    async with (
        container(here, tmp_path) as (request, *_),
        connected(browser, request) as terminal,
    ):
        terminal.to_page.put_nowait({"type": "websocket.receive", "text": text})
        assert await terminal.end()


async def test_logging_out_ends_it(quick: PageSite, tmp_path: Path) -> None:
    browser = await quick.logged_in()
    async with container(quick, tmp_path) as (request, *_):
        ticket = await ticket_for(browser, request)
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=80, rows=24)
            terminal.type("echo rea''dy\r")
            await terminal.until(b"ready")
            await browser.post("/ui/logout")
            assert await terminal.end() == "You have logged out, so the shell was ended."


async def test_a_lost_permission_ends_it(strict: PageSite, tmp_path: Path) -> None:
    jane, bob = await strict.world.user("jane"), await strict.world.user("bob")
    owner, browser = await strict.logged_in(jane), await strict.logged_in(bob)
    async with container(strict, tmp_path, token=jane) as (request, *_):
        place, level = f"/ui/access/{request}", {"who": "bob", "can": "read"}
        await owner.post(place, {**level, "enter": "on"})
        ticket = await ticket_for(browser, request)
        async with connected(browser, request) as terminal:
            terminal.say(ticket=ticket, columns=80, rows=24)
            terminal.type("echo rea''dy\r")
            await terminal.until(b"ready")
            filters = {"filters": [["link_class", "=", "container_access"]]}
            links = await strict.world.ok("GET", "links", params=filters)
            await strict.world.ok("DELETE", f"links/{links['items'][0]['uuid']}", token=jane)
            assert "is not yours" in await terminal.end()


async def test_too_many_shells(here: PageSite, browser: Browser, tmp_path: Path) -> None:
    async with container(here, tmp_path) as (request, *_), contextlib.AsyncExitStack() as open_:
        for _ in range(10):
            terminal = await open_.enter_async_context(connected(browser, request))
            terminal.say(ticket=await ticket_for(browser, request), columns=80, rows=24)
            terminal.type("echo rea''dy\r")
            await terminal.until(b"ready")
        async with connected(browser, request) as terminal:
            terminal.say(ticket=await ticket_for(browser, request), columns=80, rows=24)
            assert "close some" in await terminal.end()
