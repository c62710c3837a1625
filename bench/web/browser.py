"""What a reader waits for in Chromium: the first paint of each list, the bytes of a page with all
that it loads, and the change of a row after its event.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, Page, async_playwright

from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import body
from bench.figures import Figure, absent, durations
from bench.web.lists import lists
from bench.web.visitor import log_in
from lading.client.api import ApiClient
from lading.client.transport import HttpTransport

_CHROMIUM: Final = Path("/usr/bin/chromium")
PAINT: Final = 1000.0
CHANGE: Final = 500.0
WEIGHT: Final = 150_000
_ROUNDS: Final = 5
_CHANGES: Final = 30
_PAINTED: Final = """
new Promise(found => new PerformanceObserver(
    all => all.getEntriesByName('first-contentful-paint').forEach(one => found(one.startTime))
).observe({type: 'paint', buffered: true}))"""
_BYTES: Final = """
[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .reduce((sum, one) => sum + one.transferSize, 0)"""
_WATCH: Final = """
() => { window.seen = [];
new MutationObserver(() => { window.seen.push([Date.now(), document.body.textContent]); })
    .observe(document.body, {subtree: true, childList: true, characterData: true}); }"""
_SEEN: Final = """
text => { const found = (window.seen || []).find(one => one[1].includes(text));
          return found ? found[0] : 0; }"""


async def measure(place: Place, server: Server) -> list[Figure]:
    """The first paint of each list with an empty cache, and the heaviest of them in bytes."""
    if not _CHROMIUM.is_file():
        return [absent("chromium", "is not installed (Debian package chromium)")]
    figures, heaviest = [], ("", 0.0)
    async with _chromium() as browser:
        for name, path in lists(place).items():
            paints = []
            for _ in range(_ROUNDS):
                async with _page(browser, place, server) as page:
                    await page.goto(f"https://{server.address}{path}", wait_until="load")
                    paints.append(float(await page.evaluate(_PAINTED)) / 1000)
                    weight = float(await page.evaluate(_BYTES))
            heaviest = max(heaviest, (name, weight), key=lambda one: one[1])
            note = f"{weight / 1000:.0f} kB with all that it loads"
            figures.append(durations(f"browser: {name}", paints, p50_limit=PAINT, note=note))
    bytes = Figure(
        name="browser: bytes of the heaviest page, empty cache", unit="kB", count=0,
        target=f"< {WEIGHT / 1000:g} kB", met=heaviest[1] < WEIGHT,
        note=f"{heaviest[1] / 1000:.0f} kB ({heaviest[0]})",
    )  # fmt: skip
    return [*figures, bytes]


async def measure_live(place: Place, server: Server) -> list[Figure]:
    """From the call that changes a container to the row that shows it."""
    if not _CHROMIUM.is_file():
        return [absent("chromium", "is not installed (Debian package chromium)")]
    async with (
        HttpTransport(unix_socket=server.socket) as transport,
        _chromium() as browser,
        _page(browser, place, server) as page,
    ):
        container, supervisor = await _running(place, transport)
        await page.goto(f"https://{server.address}/ui/requests?state=Running")
        await page.get_by_text("Live", exact=True).wait_for()
        await page.evaluate(_WATCH)
        took = []
        for number in range(_CHANGES):
            # Some follow each other sooner than pages are told of changes.
            await asyncio.sleep(0.1 if number % 3 else 1.5)
            took.append(await _change(page, supervisor, container, 11 + number))
        note = "one in three comes alone, the others 0.1 s after the one before was shown"
        return [durations("live: a row after its event", took, p99_limit=CHANGE, note=note)]


async def _running(place: Place, transport: HttpTransport) -> tuple[str, ApiClient]:
    """A container that runs for Alice, and the client of its supervisor."""
    alice = ApiClient(transport, place.site.token("alice"))
    given = body("live", 1, use_existing=False, name="live row")
    request = await alice.create("container_requests", given)
    locker = ApiClient(transport, place.site.token("locker 0"))
    uuid = request["container_uuid"]
    locked = await locker.action("containers", uuid, "lock")
    supervisor = ApiClient(transport, locked["supervisor_token"])
    await supervisor.update("containers", uuid, {"state": "Running"})
    return uuid, supervisor


async def _change(page: Page, supervisor: ApiClient, container: str, number: int) -> float:
    """Seconds from a call that changes the progress until the page shows it."""
    await page.evaluate("window.seen = []")
    began = time.time()
    await supervisor.update("containers", container, {"progress": (number + 0.5) / 100})
    while time.time() < began + 20:
        shown = await page.evaluate(_SEEN, f"{number} %")
        if shown:
            return float(shown) / 1000 - began
        await asyncio.sleep(0.02)
    raise RuntimeError(f"the row did not show {number} %")


@contextlib.asynccontextmanager
async def _chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as started:
        browser = await started.chromium.launch(
            executable_path=str(_CHROMIUM), args=["--no-sandbox"]
        )
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def _page(browser: Browser, place: Place, server: Server) -> AsyncIterator[Page]:
    """A window with an empty cache of Alice, who is logged in."""
    async with HttpTransport(unix_socket=server.socket) as transport:
        cookie = await log_in(transport, place.site.token("alice"))
    name, _, value = cookie.partition("=")
    context = await browser.new_context(ignore_https_errors=True)
    given: dict[str, Any] = {
        "name": name, "value": value, "url": f"https://{server.address}/", "secure": True,
    }  # fmt: skip
    await context.add_cookies([given])  # type: ignore[list-item]
    page = await context.new_page()
    page.set_default_timeout(30_000)
    yield page
    await context.close()
