"""Rows of lists."""

from __future__ import annotations

from tests.web.site import Browser, PageSite


async def test_cancelled_ones_are_told_apart_here(here: PageSite, browser: Browser) -> None:
    world = here.world
    done = await world.submit("done", name="done")
    await world.run(done["container_uuid"])
    gone = await world.submit("gone", name="gone")
    await world.ok("POST", f"container_requests/{gone['uuid']}/cancel")
    words = await browser.words("/ui/requests?state=Cancelled")
    assert "⊘ Cancelled gone" in words
    assert "done" not in words


async def test_a_reused_result_says_so(here: PageSite, browser: Browser) -> None:
    world = here.world
    first = await world.submit("same", name="first")
    await world.run(first["container_uuid"])
    await world.submit("same", name="second")
    assert "✓ Complete reused second" in await browser.words("/ui/requests")
