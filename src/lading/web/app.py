"""The application of the page: finds the handler of an address, the session of a browser, and turns
every error into a page.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from starlette.requests import ClientDisconnect
from starlette.requests import Request as Incoming
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from lading.client.transport import Transport
from lading.core.errors import LadingError, MethodNotAllowed, NotFound, Unauthenticated
from lading.net.acceptor import note_holder, note_known
from lading.web import (
    browser_rules,
    compression,
    data,
    event_stream,
    graphs,
    login,
    now,
    requests,
    run_templates,
    runs,
    shell,
    single_sign_on,
    site,
    static_files,
    workbench,
)
from lading.web.live_updates import LiveUpdates
from lading.web.open_shells import OpenShells, ShellChecks
from lading.web.rendering import Renderer
from lading.web.routes import PageRoute, SocketRoute, route
from lading.web.sessions import SessionStore
from lading.web.visit import ANSWERS, PageServices, Visit, read_form, show_answer

_logger = logging.getLogger("lading.web")
_EVENTS: Final = "/ui/events"
# The code of a websocket whose server has a fault (RFC 6455, section 7.4.1).
_FAULT: Final = 1011
_FAILED: Final = "This did not work"
# The API's words for a record that is not there, with the name of its type and its uuid.
_NO_RECORD: Final = re.compile(r"Path not found: no (\w+) '([^']*)'.*", re.DOTALL)
_IN_TRASH: Final = re.compile(r"Path not found: (collection \S+ is in the trash).*", re.DOTALL)
_TITLES: Final = {
    400: "This request cannot be read",
    403: "This is not allowed",
    404: "There is nothing here",
    503: "The server is busy",
}


ROUTES: Final = (
    route("GET", "/ui/now", now.show),
    route("GET", "/ui/now/parts", now.refresh),
    route("GET", _EVENTS, event_stream.stream),
    route("GET", "/ui/login", login.show, open=True),
    route("POST", "/ui/login", login.submit, open=True),
    route("GET", "/ui/login/{secret}", login.open_link, open=True),
    route("POST", "/ui/login/{secret}", login.open_link, open=True),
    route("GET", single_sign_on.BEGIN, single_sign_on.begin, open=True),
    route("GET", single_sign_on.DONE, single_sign_on.finish, open=True),
    route("POST", "/ui/logout", login.log_out, open=True),
    route("POST", "/ui/links", login.make_link, open=True, programs=True),
    route("GET", f"{ANSWERS}/{{name}}", show_answer),
    route("GET", "/ui/static/{name}", static_files.serve, open=True),
    route("GET", "/ui/static/{folder}/{name}", static_files.serve, open=True),
    *runs.ROUTES,
    *run_templates.ROUTES,
    *requests.ROUTES,
    *workbench.ROUTES,
    *graphs.ROUTES,
    *data.ROUTES,
    *site.ROUTES,
    *shell.ROUTES,
)
SOCKETS: Final = shell.SOCKETS


def make_app(
    transport: Transport,
    *,
    directory: Path,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    entropy: Callable[[int], bytes] = os.urandom,
    shell_checks: ShellChecks | None = None,
) -> ASGIApp:
    """The page; it owns `/ui/`, also for websockets. `transport` leads to the server; `directory`
    keeps sessions.
    """
    return _Page(
        PageServices(
            transport=transport,
            sessions=SessionStore(directory, clock=lambda: clock().timestamp(), entropy=entropy),
            renderer=Renderer(clock),
            live=LiveUpdates(),
            shells=OpenShells(shell_checks or ShellChecks()),
            clock=clock,
            entropy=entropy,
        )
    )


async def _take_form(visit: Visit, route: PageRoute) -> None:
    """Read the form of a page, and check that a page of ours has sent it. Raises Forbidden."""
    incoming, form_token = visit.incoming, ""
    if route.raw:
        form_token = incoming.headers.get("x-form-token", "")
    else:
        visit.form = await read_form(incoming)
    if not route.programs:
        browser_rules.check_form(
            "POST",
            incoming.headers,
            scheme=incoming.url.scheme,
            secret=visit.secret,
            form_token=form_token or visit.field("form_token"),
        )


class _Page:
    def __init__(self, services: PageServices) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._converse(WebSocket(scope, receive, send))
            return
        visit = Visit(services=self._services, incoming=Incoming(scope, receive))
        began = time.perf_counter()
        try:
            response = await self._answer(visit)
        except ClientDisconnect:
            return
        except LadingError as error:
            response = _refuse(visit, error)
        except Exception:  # the boundary of a request: a fault of ours must not end the connection
            # Not the path: that of a one-time link is a secret.
            _logger.exception("request failed page=%s", visit.name)
            response = _refuse(visit, LadingError("internal error: see the server's log"))
        response = await visit.answered(response)
        for name, value in browser_rules.HEADERS.items():
            response.headers.setdefault(name, value)
        compression.compress_page(response, visit.incoming.headers)
        took = (time.perf_counter() - began) * 1000
        # Seen in the tools of browsers; what a budget of time is measured by.
        response.headers["Server-Timing"] = f"page;dur={took:.1f}"
        await response(scope, receive, send)

    async def _answer(self, visit: Visit) -> Response:
        incoming = visit.incoming
        route, visit.parts = _find(incoming.method, incoming.url.path)
        visit.name = route.pattern.pattern
        secret = browser_rules.read_cookie(incoming.headers.get("cookie", ""))
        if secret and not route.programs:
            visit.session = await self._services.sessions.find(secret)
            visit.secret = secret if visit.session else ""
        if incoming.method == "POST":
            await _take_form(visit, route)
        if visit.session is None and not route.open:
            return _to_login(visit)
        if visit.session is not None:
            note_holder(incoming.scope, visit.session.user_uuid)
        response = await route.handler(visit)
        if visit.session is not None and not route.open:
            # The API accepted the token of the session.
            note_known(incoming.scope)
        return response

    async def _converse(self, socket: WebSocket) -> None:
        """Serve a websocket of a page of ours. One without a session is refused before it opens."""
        # A handshake is a request like others, but for its type.
        incoming = Incoming({**socket.scope, "type": "http", "method": "GET"})
        visit = Visit(services=self._services, incoming=incoming)
        try:
            browser_rules.check_socket(incoming.headers, scheme=socket.url.scheme)
            route, visit.parts = _find_socket(incoming.url.path)
            visit.secret = browser_rules.read_cookie(incoming.headers.get("cookie", ""))
            visit.session = await self._services.sessions.find(visit.secret)
            if visit.session is None:
                raise Unauthenticated
            note_holder(socket.scope, visit.session.user_uuid)
        except LadingError:
            await socket.close()
            return
        note_known(socket.scope)
        try:
            await route.handler(visit, socket)
        except Exception:  # the boundary of a connection: a fault of ours must not go unseen
            _logger.exception("websocket failed page=%s", route.pattern.pattern)
            await socket.close(_FAULT)


def _find_socket(path: str) -> tuple[SocketRoute, dict[str, str]]:
    """The route of a websocket, and the parts of its path. Raises NotFound."""
    for candidate in SOCKETS:
        if match := candidate.pattern.fullmatch(path):
            return candidate, match.groupdict()
    raise NotFound("There is no page at this address")


def _find(method: str, path: str) -> tuple[PageRoute, dict[str, str]]:
    """The route of a path, and the parts of the path. Raises NotFound, MethodNotAllowed."""
    method = "GET" if method == "HEAD" else method
    has_path = False
    for candidate in ROUTES:
        match = candidate.pattern.fullmatch(path)
        if match is not None and candidate.method == method:
            return candidate, match.groupdict()
        has_path |= match is not None
    if has_path:
        raise MethodNotAllowed(f"{method[:20]}: is not offered here")
    raise NotFound("There is no page at this address")


def _refuse(visit: Visit, error: LadingError) -> Response:
    if isinstance(error, Unauthenticated) and visit.session is not None:
        # The token of the session was ended elsewhere.
        return _to_login(visit)
    status = error.status
    if visit.is_fragment and _is_gone(visit, error):
        # The whole page is about this record: loaded again, it says so.
        return Response(status_code=204, headers={"HX-Refresh": "true"})
    is_form = visit.incoming.method == "POST"
    # Of a form not the address is wrong, but what was written.
    title = _FAILED if is_form and status == 404 else _TITLES.get(status, _FAILED)
    # A fragment takes the place of a part of a page, so it has no frame.
    text = _plain(error.message) if status == 404 else error.message
    template = "fault.html" if visit.is_fragment else "error.html"
    back = browser_rules.own_place(visit.incoming.headers) if is_form else ""
    in_trash = status == 404 and _IN_TRASH.fullmatch(error.message) is not None
    return visit.page(template, status=status, title=title, text=text, back=back, in_trash=in_trash)


def _is_gone(visit: Visit, error: LadingError) -> bool:
    """Whether the record that the address names is not there any more."""
    found = _NO_RECORD.fullmatch(error.message) if error.status == 404 else None
    is_read = visit.incoming.method == "GET"
    return found is not None and is_read and found[2] == visit.parts.get("uuid")


def _plain(message: str) -> str:
    """A fault in the words of the page."""
    if (match := _IN_TRASH.fullmatch(message)) is not None:
        return f"The {match[1]}. Restore it there to see it."
    match = _NO_RECORD.fullmatch(message)
    if match is None:
        return message
    kind = match[1].replace("container_request", "request").replace("group", "project")
    return f"There is no {kind.replace('_', ' ')} {match[2]}, or you may not see it."


def _to_login(visit: Visit) -> Response:
    is_read = visit.incoming.method in ("GET", "HEAD")
    # What a form sent is dropped; the login leads back to its page.
    form = "" if is_read else browser_rules.own_place(visit.incoming.headers)
    if visit.incoming.url.path == _EVENTS:
        # Browsers ask for a stream again and again, unless the answer is 204.
        return Response(status_code=204)
    if visit.is_fragment:
        # A redirection would put the form of the login into a part of the page.
        return Response(status_code=204, headers={"HX-Refresh": "true"})
    asked = {"next": visit.place if is_read else form or browser_rules.HOME}
    if form:
        asked["unsent"] = "1"
    response = visit.redirect(f"/ui/login?{urlencode(asked)}")
    if visit.session is not None:
        response.headers["Set-Cookie"] = browser_rules.cookie("", seconds=0)
    return response
