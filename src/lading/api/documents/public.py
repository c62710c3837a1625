"""Responses that need no permission: configuration, vocabulary, health, metrics, first pages.

- The exported configuration and the vocabulary (docs/spec/api, section Exported configuration).
- Health and metrics, for the management token.
- `/`, `/login` and `/logout`, which people and browsers try first. `/login` leads to that of the
  page; users give their token to other clients. A client that asks for a name and a password takes
  a token as the password (`users.authenticate`). `/logout` ends the token of the request for good.
  No response redirects a browser to an address that a caller names.
"""

from __future__ import annotations

from html import escape
from typing import Final

from lading import __version__
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import authenticate, find_token
from lading.api.metrics import METRICS
from lading.api.resources import generic
from lading.api.server.blocks import STORAGE
from lading.api.server.vocabulary import VOCABULARY
from lading.api.server.wait_statuses import STATUSES
from lading.config.site import export
from lading.core.errors import Unauthenticated, Unavailable
from lading.core.records import access
from lading.core.records.record_types import TOKENS, USERS
from lading.core.records.schema import Record
from lading.process.metrics import CONTENT_TYPE, check_management_token, text_of
from lading.store import records

# The programs of Arvados whose part this server has.
_SERVICES: Final = ("arvados-controller", "arvados-ws", "keepstore", "keep-web")
_NO_URL: Record = {"ExternalURL": ""}
_LOGIN: Record = {
    "LoginCluster": "",
    # Clients ask for a name and a password then, and take them to `users.authenticate`, where a
    # token is the password.
    "PAM": {"Enable": True},
    **{name: {"Enable": False} for name in ("Google", "LDAP", "OpenIDConnect", "SSO", "Test")},
}
# Settings of Workbench 2, which fails when a key is missing.
_WORKBENCH: Record = {
    "SiteName": "Lading",
    "IdleTimeout": "0s",
    "DisableSharingURLsUI": False,
    "UserProfileFormFields": {},
    **dict.fromkeys(
        (
            "ArvadosDocsite", "BannerUUID", "FileViewersConfigURL", "InactivePageHTML",
            "SSHHelpHostSuffix", "SSHHelpPageHTML", "UserProfileFormMessage", "WelcomePageHTML",
        ),
        "",
    ),
}  # fmt: skip


async def get_config(call: ApiCall) -> ApiResponse:
    """The configuration without its private keys."""
    config = call.services.config
    url = config.ExternalURL
    shown: Record = export(config)
    shown["Collections"] |= {"ManagedProperties": {}}
    shown["Services"] = {
        "Controller": {"ExternalURL": url},
        "Keepproxy": {"ExternalURL": url},
        "Websocket": {"ExternalURL": websocket_url(url)},
        "WebDAV": {"ExternalURL": url},
        "WebDAVDownload": {"ExternalURL": url},
        "ContainerWebServices": {"ExternalURL": config.Services.ContainerWebServices.ExternalURL},
        "Workbench2": {"ExternalURL": config.Services.Workbench2.ExternalURL or page_url(url)},
        **{name: dict(_NO_URL) for name in ("Workbench1", "WebShell")},
    }
    shown |= {
        "RemoteClusters": {},
        "InstanceTypes": {},
        "Login": {
            **_LOGIN,
            "OpenIDConnect": {"Enable": config.Login.OpenIDConnect.Enable},
            "TokenLifetime": shown["Login"]["TokenLifetime"],
        },
        "Volumes": {},
        "Workbench": _WORKBENCH,
        "TLS": {"Insecure": False},
    }
    return ApiResponse(body=shown)


def websocket_url(url: str) -> str:
    """The address of the websocket for events."""
    return url.replace("http", "ws", 1).rstrip("/") + "/websocket" if url else ""


def page_url(url: str) -> str:
    """The address of the page, which has addresses of Workbench 2 (`web.workbench`)."""
    return f"{url.rstrip('/')}/ui/" if url else ""


async def get_vocabulary(call: ApiCall) -> ApiResponse:
    """The vocabulary; without one all properties are allowed."""
    return ApiResponse(body=call.services.features[VOCABULARY].document)


async def get_status(call: ApiCall) -> ApiResponse:
    """The number of listeners for events (docs/spec/api, section Websocket)."""
    return ApiResponse(body={"Clients": call.services.events.bus.listening, "Version": __version__})


async def get_debug(call: ApiCall) -> ApiResponse:
    """The number of queued events of each listener; needs the management token."""
    _check_management(call)
    return ApiResponse(body={"Queues": call.services.events.bus.queues})


async def get_health(call: ApiCall) -> ApiResponse:
    """Whether the server and its database answer and accept changes; needs the management token."""
    _check_management(call)
    if call.services.database.fault is not None:
        raise Unavailable(f"the database takes no changes: {call.services.database.fault.message}")
    async with call.services.database.reading() as tx:
        await records.get(tx, USERS, call.services.ids.system_user)
    return ApiResponse(body={"health": "OK"})


async def get_all_health(call: ApiCall) -> ApiResponse:
    """The health of the services of this server, in the form of Arvados' health aggregator; needs
    the management token.
    """
    _check_management(call)
    began = call.services.clock.time()
    error = ""
    try:
        await get_health(call)
    except Unavailable as fault:
        error = fault.message
    seconds = (call.services.clock.time() - began).total_seconds()
    health = "ERROR" if error else "OK"
    check: Record = {
        "Health": health,
        **({"Error": error} if error else {}),
        "HTTPStatusCode": 503 if error else 200,
        "Response": {"health": health},
        "ResponseTime": round(seconds, 6),
        "ClockTime": call.services.clock.now(),
        "Server": f"lading/{__version__}",
        "Version": __version__,
    }
    url = call.services.config.ExternalURL.rstrip("/")
    checks = {f"{name}+{url}/_health/ping": check for name in _SERVICES}
    services = {name: {"Health": health, "N": 1} for name in _SERVICES}
    return ApiResponse(
        body={
            "Health": health,
            "Checks": checks,
            "Services": services,
            "ClockSkew": "0s",
            "Errors": [f"{name}: {error}" for name in checks] if error else [],
        }
    )


async def get_metrics(call: ApiCall) -> ApiResponse:
    """The metrics, in the text format of Prometheus; needs the management token."""
    _check_management(call)
    services = call.services
    metrics = services.features[METRICS]
    await metrics.look(
        services.database,
        services.clock,
        services.features[STATUSES],
        services.features[STORAGE],
        listeners=services.events.bus.listening,
    )
    return ApiResponse(body=text_of(metrics.registry), headers={"Content-Type": CONTENT_TYPE})


def _check_management(call: ApiCall) -> None:
    check_management_token(
        find_token(call.headers, call.params), call.services.config.ManagementToken
    )


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
    """Instructions for a log-in with a token."""
    instructions = (
        "Browsers log in at /ui/login. Give your token to other clients: in ARVADOS_API_TOKEN, or "
        "as the password where they ask for one. "
        "Tokens come from an admin, and from 'lading token create'."
    )
    return (
        _page("Log in", f'<p>{escape(instructions)}</p><p><a href="/ui/login">Log in</a></p>')
        if _wants_page(call)
        else ApiResponse(body={"message": instructions})
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
    message = (
        "The token has ended."
        if record is not None
        else "The token is one of the configuration: it stays valid."
    )
    return (
        _page("Logged out", f"<p>{message}</p>")
        if _wants_page(call)
        else ApiResponse(body={"message": message})
    )


def _wants_page(call: ApiCall) -> bool:
    return "text/html" in call.headers.get("accept", "")


def _page(title: str, body: str) -> ApiResponse:
    text = (
        '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title><h1>{title}</h1>{body}</html>\n"
    )
    return ApiResponse(body=text.encode(), headers=dict(_HTML))
