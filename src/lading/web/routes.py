"""The addresses of the page: each package lists its own in `ROUTES`, with the handler of each."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.websockets import WebSocket

from lading.web.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]
SocketHandler = Callable[[Visit, WebSocket], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A handler, and what is checked before it.

    `open` needs no session; `programs` are called with a token by programs, not by forms. The body
    of a `raw` one is a file, which the handler reads; the header X-Form-Token has the form's token.
    """

    method: str
    pattern: re.Pattern[str]
    handler: Handler
    open: bool = False
    programs: bool = False
    raw: bool = False


def route(
    method: str,
    path: str,
    handler: Handler,
    *,
    open: bool = False,
    programs: bool = False,
    raw: bool = False,
) -> PageRoute:
    """The route of a path; `{name}` in it is one segment, which the handler finds in `parts`."""
    return PageRoute(method, _pattern(path), handler, open, programs, raw)


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A handler of websockets. The session and the origin are checked before it."""

    pattern: re.Pattern[str]
    handler: SocketHandler


def socket_route(path: str, handler: SocketHandler) -> SocketRoute:
    """The route of a websocket; its path is as that of `route`."""
    return SocketRoute(_pattern(path), handler)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
