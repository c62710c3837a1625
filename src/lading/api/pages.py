"""The responses to `/`, `/login` and `/logout`, which people and browsers try first.

There is no login page: users give their token to their client. A client that asks for a name and a
password takes a token as the password (`users.authenticate`). `/logout` ends the token of the
request for good. No response redirects a browser to an address that a caller names.
"""

from __future__ import annotations

from html import escape
from typing import Final

from lading import __version__
from lading.api.authentication import authenticate, find_token
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.core.errors import Unauthenticated
from lading.core.records import access
from lading.core.records.record_types import TOKENS
from lading.core.records.schema import Record
from lading.store import records

_HTML: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_PLACES: Final = {
    "API": "arvados/v1/openapi.json",
    "discovery": "discovery/v1/apis/arvados/v1/rest",
    "configuration": "arvados/v1/config",
}


async def get_root(call: ApiCall) -> ApiResponse:
    """The name of the server, and the addresses of its descriptions."""
    config = call.services.config
    url = config.ExternalURL.rstrip("/") + "/"
    if not _wants_page(call):
        places: Record = {name: url + path for name, path in _PLACES.items()}
        return ApiResponse(
            body={"name": "Lading", "version": __version__, "cluster": config.ClusterID, **places}
        )
    links = "".join(
        f'<li><a href="{escape(url + path)}">{name}</a></li>' for name, path in _PLACES.items()
    )
    return _page(f"Lading {__version__}, cluster {config.ClusterID}", f"<ul>{links}</ul>")


async def get_login(call: ApiCall) -> ApiResponse:
    """How to log in: with a token."""
    text = (
        "There is no page to log in at. Give your token to your client: in ARVADOS_API_TOKEN, or "
        "as the password where it asks for one. "
        "Tokens come from an admin, and from 'lading token create'."
    )
    return (
        _page("Log in", f"<p>{escape(text)}</p>")
        if _wants_page(call)
        else ApiResponse(body={"message": text})
    )


async def log_out(call: ApiCall) -> ApiResponse:
    """End the calling token. Raises Unauthenticated without a token, Forbidden for a token that may
    not end itself.
    """
    services = call.services
    principal = await authenticate(services, find_token(call.headers, call.params))
    if principal is None:
        raise Unauthenticated("Not logged in: send the token that is to end")
    access.check_scope(principal, "DELETE", f"/arvados/v1/{TOKENS.plural}/{principal.token_uuid}")
    async with services.database.writing() as tx:
        record = await records.get(tx, TOKENS, principal.token_uuid)
        if record is not None:
            await generic.remove(tx, services, TOKENS, record, user_uuid=principal.user_uuid)
    text = (
        "The token has ended."
        if record is not None
        else "The token is one of the configuration: it stays valid."
    )
    return (
        _page("Logged out", f"<p>{text}</p>")
        if _wants_page(call)
        else ApiResponse(body={"message": text})
    )


def _wants_page(call: ApiCall) -> bool:
    return "text/html" in call.headers.get("accept", "")


def _page(title: str, body: str) -> ApiResponse:
    text = (
        '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title><h1>{title}</h1>{body}</html>\n"
    )
    return ApiResponse(body=text.encode(), headers=dict(_HTML))
