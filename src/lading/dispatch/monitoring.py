"""The addresses at which a dispatcher answers monitors: `/metrics` and `/_health/ping`.

`answering` serves any application at an address of the configuration; the management interface of
the cloud fleet uses it too. Every call needs the ManagementToken.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from lading.core.errors import Invalid, LadingError
from lading.dispatch.metrics import DispatchMetrics
from lading.process.metrics import CONTENT_TYPE, check_management_token, text_of

_KEY: Final = "Containers.MetricsAddress"


def guard(token: str) -> Middleware:
    """A middleware that asks for the ManagementToken, before the handler of any route, and sends
    errors as JSON.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            kind, _, given = request.headers.get("Authorization", "").partition(" ")
            is_bearer = kind.lower() in ("bearer", "oauth2")
            check_management_token(given.strip() if is_bearer else "", token)
            return await handler(request)
        except LadingError as error:
            body = {"errors": [error.message]}
            return web.Response(
                body=msgspec.json.encode(body), status=error.status, content_type="application/json"
            )

    return check


@asynccontextmanager
async def monitored(metrics: DispatchMetrics, address: str, token: str) -> AsyncGenerator[str]:
    """Answer monitors at HOST:PORT while inside; the URL. Raises Invalid."""

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=text_of(metrics.registry), headers={"Content-Type": CONTENT_TYPE})

    async def ping(_: web.Request) -> web.Response:
        return web.json_response({"health": "OK"})

    application = web.Application(middlewares=[guard(token)])
    application.add_routes([web.get("/metrics", show), web.get("/_health/ping", ping)])
    async with answering(application, address, token, key=_KEY) as url:
        yield url


@asynccontextmanager
async def answering(
    application: web.Application, address: str, token: str, *, key: str
) -> AsyncGenerator[str]:
    """Serve an application at the address that the configuration has under `key` while inside; the
    URL. Raises Invalid when that cannot be.
    """
    host, port = parse_address(address, key=key)
    if not token:
        raise Invalid(f"configuration: ManagementToken: it is empty; {key} needs one")
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            said = f"{address!r} cannot be served: {error.strerror}"
            raise Invalid(f"configuration: {key}: {said}") from error
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def parse_address(text: str, *, key: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises Invalid, naming the key of the configuration."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"configuration: {key}: {text!r}; it must be HOST:PORT")
    return host.strip("[]"), int(port)
