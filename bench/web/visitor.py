"""A reader of the page who is logged in, without a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from bench.api.process import Server
from lading.client.transport import HttpTransport, Response

_FORM: Final = {
    "content-type": "application/x-www-form-urlencoded",
    "sec-fetch-site": "same-origin",
}
_BROWSER: Final = {"accept": "text/html", "accept-encoding": "gzip", "sec-fetch-site": "none"}
_TOOK: Final = re.compile(r"page;dur=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a session."""

    transport: HttpTransport
    cookie: str

    async def get(self, path: str) -> tuple[Response, float]:
        """A page, and the seconds that the server says it took. Raises RuntimeError."""
        answer = await self.transport.request(
            "GET", path, headers={**_BROWSER, "cookie": self.cookie}
        )
        found = _TOOK.search(answer.headers.get("server-timing", ""))
        if answer.status >= 400 or found is None:
            raise RuntimeError(f"{path}: status {answer.status}")
        return answer, float(found[1]) / 1000


@asynccontextmanager
async def visiting(server: Server, token: str) -> AsyncIterator[Visitor]:
    """A visitor who has logged in with a token."""
    async with HttpTransport(unix_socket=server.socket) as transport:
        yield Visitor(transport, await log_in(transport, token))


async def log_in(transport: HttpTransport, token: str) -> str:
    """The cookie of a new session. Raises RuntimeError."""
    body = urlencode({"token": token}).encode()
    answer = await transport.request("POST", "/ui/login", headers=_FORM, body=body)
    cookie = answer.headers.get("set-cookie", "").partition(";")[0]
    if answer.status != 303 or not cookie:
        raise RuntimeError(f"login: status {answer.status}")
    return cookie
