"""Login with a token or a one-time link, and logout.

A session gets a token of its own where the given one may make tokens; it ends with the session.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from lading.client.api import Record
from lading.core.errors import Forbidden, LadingError, NotFound, Unauthenticated
from lading.core.quantities import format_time
from lading.web import browser_rules
from lading.web.sessions import LINK_LIFE, LONGEST, PageSession
from lading.web.visit import Visit

_LOGIN: Final = "/ui/login"
_REFUSED: Final = "This token was refused: it is mistyped, it has ended, or its user is not active."
_UNSENT: Final = (
    "Your login had ended, so nothing was changed. Log in, then fill in the form again."
)


async def show(visit: Visit) -> Response:
    """The form for a token."""
    if visit.session is not None:
        return visit.redirect(browser_rules.safe_place(visit.query("next")))
    fault = _UNSENT if visit.query("unsent") else ""
    if visit.query("refused") == "token":
        fault = _REFUSED
    return await show_form(visit, visit.query("next"), fault=fault)


async def submit(visit: Visit) -> Response:
    """Log in with the token of the form."""
    token, target = visit.field("token").strip(), visit.field("next")
    try:
        return await _log_in(visit, token, target)
    except (Unauthenticated, Forbidden, UnicodeError) as error:
        if visit.is_form_of_page:
            # An address to which the browser can come back.
            asked = {"next": browser_rules.safe_place(target), "refused": "token"}
            return visit.redirect(f"{_LOGIN}?{urlencode(asked)}")
        reason = error.message if isinstance(error, LadingError) else "not a token"
        return await show_form(visit, target, fault=f"This token was refused: {reason}", status=401)


async def log_out(visit: Visit) -> Response:
    """End the session and its token; a login at a provider is ended there too."""
    session = visit.session
    if session is not None:
        await visit.services.sessions.end(visit.secret)
        if session.token_uuid:
            # It may have ended by itself.
            with suppress(Unauthenticated, NotFound):
                await visit.api.delete("api_client_authorizations", session.token_uuid)
    if session is not None and session.logout_url:
        visit.session, visit.secret = None, ""
        response = visit.page("logged_out.html", address=session.logout_url)
        # Not a redirection: browsers refuse that of a form to another site (`form-action`).
        response.headers["Refresh"] = f"0; url={session.logout_url}"
    else:
        response = visit.redirect(_LOGIN)
    response.headers["Set-Cookie"] = browser_rules.cookie("", seconds=0)
    # Pages of the session must not come back from the browser's memory.
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


async def make_link(visit: Visit) -> Response:
    """A one-time link for the sender of an API token: `{"path", "seconds"}`. Raises
    Unauthenticated.

    The link and not the token is in the browser's history; the first reader who opens it is logged
    in.
    """
    scheme, _, token = visit.incoming.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("no token: send 'Authorization: Bearer TOKEN'")
    # A token that the API refuses gets no link.
    await visit.client_of(token.strip()).request("GET", "users/current")
    place = browser_rules.safe_place(visit.field("next"))
    secret = await visit.services.sessions.make_link(token.strip(), place)
    body = msgspec.json.encode({"path": f"{_LOGIN}/{secret}", "seconds": LINK_LIFE})
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


async def open_link(visit: Visit) -> Response:
    """Log in with a link that the reader has opened; one that another site opened asks first."""
    site = visit.incoming.headers.get("sec-fetch-site", "none")
    # HEAD as well: a script of another site can send it.
    if visit.incoming.method != "POST" and site != "none":
        return visit.page("link.html", secret=visit.parts["secret"])
    link = await visit.services.sessions.take_link(visit.parts["secret"])
    if link is None:
        fault = "This link was used already or is too old; run 'lading open' again."
        return await show_form(visit, "", fault=fault, status=403)
    return await _log_in(visit, link.token, link.target)


async def show_form(visit: Visit, target: str, *, fault: str = "", status: int = 200) -> Response:
    """The page to log in at, with what was wrong; `target` is where a login leads."""
    config = await visit.client_of("").request("GET", "config")
    return visit.page(
        "login.html",
        status=status,
        fault=fault,
        next=browser_rules.safe_place(target),
        has_provider=config["Login"]["OpenIDConnect"]["Enable"],
    )


async def _log_in(visit: Visit, token: str, target: str) -> Response:
    """Begin a session. Raises Unauthenticated, Forbidden."""
    if not token.isascii() or not token.isprintable() or not token:
        raise Unauthenticated("not a token")
    client = visit.client_of(token)
    user = await client.request("GET", "users/current")
    now = visit.services.clock()
    own, uuid = token, ""
    try:
        ends = format_time(datetime.fromtimestamp(now.timestamp() + LONGEST, UTC))
        created = await client.create("api_client_authorizations", {"expires_at": ends})
        own, uuid = f"v2/{created['uuid']}/{created['api_token']}", str(created["uuid"])
    except Forbidden:
        # A token of limited scope makes no other: the session uses it as it is.
        pass
    return await begin_session(visit, token=own, token_uuid=uuid, user=user, target=target)


async def begin_session(
    visit: Visit, *, token: str, token_uuid: str, user: Record, target: str, logout_url: str = ""
) -> Response:
    """Begin a session of a user, and lead to `target`. PageSession tells of `token_uuid` and
    `logout_url`.
    """
    name = user.get("full_name") or user.get("username") or user["uuid"]
    session = PageSession(
        token=token,
        token_uuid=token_uuid,
        user_uuid=str(user["uuid"]),
        user_name=str(name),
        is_admin=bool(user.get("is_admin")),
        begun=visit.services.clock().timestamp(),
        logout_url=logout_url,
    )
    if visit.secret:
        # A secret that was known before the login must not name the session after it.
        await visit.services.sessions.end(visit.secret)
    secret = await visit.services.sessions.begin(session)
    response = visit.redirect(browser_rules.safe_place(target))
    response.headers["Set-Cookie"] = browser_rules.cookie(secret, seconds=LONGEST)
    return response
