"""A shell in the container of a request, in the browser.

`page` shows who enters where, and gives one-time tickets; `conversation` carries a terminal over a
websocket; `terminal` is the SSH client that reaches the container by the API, as `lading shell`
does: rights, records of sessions and rates are those of the API.
"""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, SocketRoute, route, socket_route
from lading.web.shell import conversation, page

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/requests/{uuid}/shell", page.show),
    route("POST", "/ui/requests/{uuid}/shell/ticket", page.give_ticket),
)
SOCKETS: Final[tuple[SocketRoute, ...]] = (
    socket_route("/ui/requests/{uuid}/shell/socket", conversation.serve),
)
