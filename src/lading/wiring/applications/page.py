"""The page of the server, imported with its first request: a server that nobody opens in a browser
pays neither time nor memory for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

from lading.client.transport import Transport

_App = Callable[[Any, Any, Any], Awaitable[None]]
_PREFIX: Final = "/ui/"


def is_page_path(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request is for the page: an address below `/ui/`, or the root in a browser."""
    path = scope["path"]
    if path.startswith(_PREFIX) or path == "/ui":
        return True
    return path == "/" and scope["method"] in ("GET", "HEAD") and _is_browser(scope)


def owns_socket(path: str) -> bool:
    """Whether a websocket is for the page."""
    return path.startswith(_PREFIX)


class OnDemandPage:
    """The application of `is_page_path`; it keeps logins in `directory`."""

    def __init__(self, transport: Transport, directory: Path) -> None:
        self._transport = transport
        self._directory = directory
        self._app: _App | None = None
        self._loading = asyncio.Lock()

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Callable[[], Any], send: Callable[..., Any]
    ) -> None:
        """Serve one request."""
        if not scope["path"].startswith(_PREFIX):
            await _redirect(send)
            return
        async with self._loading:
            if self._app is None:
                self._app = await asyncio.to_thread(self._load)
        await self._app(scope, receive, send)

    def _load(self) -> _App:
        # Imported here: templates and ciphers take a tenth of a second.
        from lading.web.app import make_app

        return make_app(self._transport, directory=self._directory)


def _is_browser(scope: MutableMapping[str, Any]) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


async def _redirect(send: Callable[..., Any]) -> None:
    headers = [(b"location", _PREFIX.encode()), (b"content-length", b"0"), (b"vary", b"accept")]
    await send({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
