"""The first page."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_nothing_at_all(browser: Browser) -> None:
    words = await browser.words("/ui/")
    assert "Nothing runs." in words
    assert "Nothing waits." in words


async def test_what_runs_waits_and_failed(here: PageSite, browser: Browser) -> None:
    world = here.world
    await world.submit("waits", name="<b>waits</b>")
    failed = await world.submit("fails", name="fails")
    await world.run(failed["container_uuid"], exit_code=5)
    running = await world.submit("runs", name="runs")
    token = await world.lock(running["container_uuid"])
    path = f"containers/{running['container_uuid']}"
    await world.ok("PUT", path, {"state": "Running", "progress": 0.5}, token=token)
    text = await browser.text("/ui/")
    assert "&lt;b&gt;waits" in text
    words = await browser.words("/ui/now")
    assert "▶ Running runs 50 %" in words
    assert "✗ failed 5 fails" in words


async def test_others_see_their_own(here: PageSite) -> None:
    await here.world.submit("x", name="of-the-admin")
    other = await here.logged_in(await here.world.user("jane"))
    assert "of-the-admin" not in await other.words("/ui/")
