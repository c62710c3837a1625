"""A browser with a terminal, on a site whose container has a real gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import Message

from lading.testing.asgi import AsgiTransport
from tests.api.container_access.test_shell_sessions import entered
from tests.supervisor.container_gateway.entering import Gateway
from tests.web.browsing import Browser, PageSite

_PATIENCE = 60.0
_ENTERED, _LEFT = "a user has entered the container", "a session in the container has ended"
ORIGIN = "http://localhost"


@dataclass(slots=True)
class TerminalClient:
    """One websocket, from the side of the browser."""

    to_page: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    from_page: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    output: bytes = b""
    ending: str = ""
    is_closed: bool = False

    def say(self, **values: Any) -> None:
        """Send a text message."""
        self.to_page.put_nowait({"type": "websocket.receive", "text": json.dumps(values)})

    def type(self, text: str) -> None:
        """Send typed bytes."""
        self.to_page.put_nowait({"type": "websocket.receive", "bytes": text.encode()})

    async def until(self, text: bytes) -> None:
        """Read until this is in the output."""
        while text not in self.output:
            assert await self.read(), f"the end came before {text!r}: {self.output!r}"

    async def end(self) -> str:
        """Read to the end; what the page says about it."""
        while await self.read():
            pass
        return self.ending

    async def read(self, patience: float = _PATIENCE) -> bool:
        """Take one message into account; False after the last one."""
        async with asyncio.timeout(patience):
            message = await self.from_page.get()
        if message["type"] == "websocket.close":
            self.is_closed = True
        elif message.get("bytes") is not None:
            self.output += message["bytes"]
        elif message.get("text") is not None:
            self.ending = json.loads(message["text"])["ended"]
        return not self.is_closed


@asynccontextmanager
async def connected(
    browser: Browser, request: str, *, origin: str = ORIGIN, cookie: str | None = None
) -> AsyncIterator[TerminalClient]:
    """A websocket of the page of a request; it says nothing yet."""
    known = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = {
        "cookie": known if cookie is None else cookie,
        **({"origin": origin} if origin else {}),
    }
    made = TerminalClient()
    # The scope is that of any websocket, which the transport knows to make.
    scope = AsgiTransport(browser.app).scope(
        "websocket", f"/ui/requests/{request}/shell/socket", headers
    )
    made.to_page.put_nowait({"type": "websocket.connect"})
    task = asyncio.ensure_future(browser.app(scope, made.to_page.get, made.from_page.put))
    try:
        yield made
    finally:
        made.to_page.put_nowait({"type": "websocket.disconnect", "code": 1001})
        async with asyncio.timeout(_PATIENCE):
            await task


@asynccontextmanager
async def container(
    here: PageSite, directory: Path, *, token: str | None = None
) -> AsyncIterator[tuple[str, str, Gateway]]:
    """A container that runs: the uuids of its request and of itself, and its gateway, whose
    sessions have ended at the end.
    """
    async with entered(here.world, directory, token=token) as (request, uuid, gateway, _):
        yield request, uuid, gateway
        async with asyncio.timeout(_PATIENCE):
            while gateway.said.count(_ENTERED) != gateway.said.count(_LEFT):
                await asyncio.sleep(0)


async def ticket_for(browser: Browser, request: str, login: str = "root") -> str:
    """A ticket of the page."""
    answer = await browser.post(f"/ui/requests/{request}/shell/ticket", {"login": login})
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["ticket"])
