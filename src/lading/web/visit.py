"""One request of a browser, and what all handlers share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request as Incoming
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lading.client.api import ApiClient
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.core.errors import Malformed, NotFound, TooLarge, from_status
from lading.web import browser_rules
from lading.web.live_updates import LiveUpdates
from lading.web.open_shells import OpenShells
from lading.web.rendering import Renderer
from lading.web.sessions import PageSession, SessionStore

# A reader waits, so it gives up soon.
_PATIENCE: Final = RetryPolicy(attempts=3, give_up_after=5.0)
# Longer than any answer of the API to a page takes.
_CALL_SECONDS: Final = 30.0
# A form has some hundred bytes; the description of a request is the longest field.
_FORM_BYTES: Final = 64 << 10
# More than the checkboxes of all rows of a page.
_FORM_FIELDS: Final = 2000
# More than a page with the largest form has.
_ANSWER_BYTES: Final = 512 << 10
_PAGE_HEADERS: Final = frozenset({"cache-control", "content-length", "content-type"})
# A form arrives at once; a sender that drips its bytes must not hold a connection.
_FORM_SECONDS: Final = 20.0

ANSWERS: Final = "/ui/answers"
"""Where answers to forms are shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServices:
    """Services that all visits share."""

    transport: Transport
    sessions: SessionStore
    renderer: Renderer
    live: LiveUpdates
    shells: OpenShells
    clock: Callable[[], datetime]
    entropy: Callable[[int], bytes]


@dataclass(kw_only=True)
class Visit:
    """A request, its session if it has one, and the parts of its address."""

    services: PageServices
    incoming: Incoming
    secret: str = ""
    """The secret of the session, "" without one."""
    session: PageSession | None = None
    name: str = ""
    """The pattern of the address, for the log."""
    parts: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, list[str]] = field(default_factory=dict)
    tells_secret: bool = False
    """The answer has a secret that is shown once."""

    @cached_property
    def api(self) -> ApiClient:
        """The API with the rights of the reader."""
        return self.client_of(self.token)

    @property
    def token(self) -> str:
        """The token of the reader, "" without a session."""
        return self.session.token if self.session else ""

    def client_of(self, token: str) -> ApiClient:
        """The API with a token."""
        return ApiClient(self.services.transport, token, retry=_PATIENCE, timeout=_CALL_SECONDS)

    @property
    def is_fragment(self) -> bool:
        """Whether a script of the page asks for a part of it."""
        return self.incoming.headers.get("hx-request") == "true"

    @property
    def place(self) -> str:
        """The address, to come back to."""
        query = self.incoming.url.query
        return self.incoming.url.path + (f"?{query}" if query else "")

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.incoming.query_params.get(name, default)

    def field(self, name: str, default: str = "") -> str:
        """A field of the form."""
        return next(iter(self.form.get(name) or ()), default)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page or a part of one."""
        session = self.session
        shared = {
            "user": session.user_name if session else "",
            "is_admin": session is not None and session.is_admin,
            "form_token": self._form_token() if self.secret else "",
            "place": self.place,
            "topics": "",
        }
        text = self.services.renderer.render(template, {**shared, **values})
        return HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})

    def _form_token(self) -> str:
        chance = self.services.entropy(browser_rules.TOKEN_BYTES)
        return browser_rules.form_token(self.secret, chance)

    @property
    def is_form_of_page(self) -> bool:
        """Whether a browser sends a form of a page of ours, and shows the answer in its place."""
        headers = self.incoming.headers
        return (
            self.incoming.method == "POST"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-site") == "same-origin"
        )

    @property
    def is_asked_here(self) -> bool:
        """Whether a page of ours, or the reader by typing, asks: not a link of another site."""
        site = self.incoming.headers.get("sec-fetch-site", "none")
        return site in ("same-origin", "none")

    async def answered(self, response: Response) -> Response:
        """The response to a form: a page gets an address of its own, to which the browser can come
        back. Coming back to a form's own address shows an error of the browser.
        """
        if not self.is_form_of_page or not self.secret or self.tells_secret:
            return response
        # A page with further headers, as a cookie, is shown at once.
        is_page = set(response.headers) == _PAGE_HEADERS and response.media_type == "text/html"
        if not is_page or len(response.body) > _ANSWER_BYTES:
            return response
        text = bytes(response.body).decode()
        name = await self.services.sessions.keep_answer(self.secret, text)
        return self.redirect(f"{ANSWERS}/{name}") if name else response

    def redirect(self, address: str) -> Response:
        """Go to another address of the page, after a form too."""
        return RedirectResponse(address, status_code=303, headers={"Cache-Control": "no-store"})


async def read_form(incoming: Incoming) -> dict[str, list[str]]:
    """The fields of a form. Raises Malformed, TooLarge, and Unavailable for a slow sender."""
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _read_body(incoming)
    if kind != "application/x-www-form-urlencoded" and body:
        raise Malformed("Content-Type: must be application/x-www-form-urlencoded")
    fields: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise Malformed(f"the form cannot be read: {error}") from None
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


async def _read_body(incoming: Incoming) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for piece in incoming.stream():
                body += piece
                if len(body) > _FORM_BYTES:
                    raise TooLarge(f"the form has more than {_FORM_BYTES} bytes")
    except TimeoutError:
        raise from_status(408, "the form did not come in time; send it again") from None
    return bytes(body)


async def show_answer(visit: Visit) -> Response:
    """The page that answered a form of this session. Raises NotFound."""
    found = await visit.services.sessions.find_answer(visit.secret, visit.parts["name"])
    if found is None:
        raise NotFound("The answer to this form is no longer kept; open the form again")
    return HTMLResponse(found, headers={"Cache-Control": "no-store"})
