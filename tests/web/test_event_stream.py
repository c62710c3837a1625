"""The stream of events of an open page."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from lading.testing.asgi import AsgiTransport
from tests.web.browsing import Browser, PageSite


async def test_an_open_page_hears_of_a_change(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    path = f"/ui/events?topics={request['uuid']},new"
    transport = AsgiTransport(here.app)
    async with (
        asyncio.timeout(10),
        transport.stream("GET", path, headers={"cookie": cookie}) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert await anext(answer.chunks) == b"retry: 3000\n\n"
        assert await anext(answer.chunks) == b"event: changed\ndata: 1\n\n"
        await here.world.run(request["container_uuid"])
        assert await anext(answer.chunks) == b"event: changed\ndata: 1\n\n"


async def test_without_a_session_a_browser_asks_no_more(here: PageSite) -> None:
    assert (await here.browser().get("/ui/events?topics=new")).status == 204


async def test_a_page_that_is_closed_is_not_told_any_more(here: PageSite, browser: Browser) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    sent: list[bytes] = []
    opened = asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if sent[-1]:
            opened.set()

    async def receive() -> MutableMapping[str, Any]:
        await opened.wait()
        return {"type": "http.disconnect"}

    scope = AsgiTransport(here.app).scope("http", "/ui/events?topics=new", {"cookie": cookie})
    async with asyncio.timeout(10):
        await here.app({**scope, "method": "GET"}, receive, send)
    assert sent == [b"", b"retry: 3000\n\n", b""]
