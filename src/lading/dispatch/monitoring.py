"""The addresses at which a dispatcher answers monitors: `/metrics` and `/_health/ping`.

`answering` serves any application at an address of the configuration; the management interface of
the cloud fleet uses it too. Every call needs the ManagementToken.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from lading.core.errors import Invalid
from lading.core.protocols.http_head import HttpHead
from lading.dispatch.metrics import DispatchMetrics
from lading.net.http_service import CallHandler, HttpAnswer, HttpCall, HttpService
from lading.process.metrics import CONTENT_TYPE, check_management_token, text_of

_KEY: Final = "Containers.MetricsAddress"


@asynccontextmanager
async def monitored(metrics: DispatchMetrics, address: str, token: str) -> AsyncGenerator[str]:
    """Answer monitors at HOST:PORT while inside; the URL. Raises Invalid."""

    async def show(_: HttpCall) -> HttpAnswer:
        return HttpAnswer(body=text_of(metrics.registry), media=CONTENT_TYPE)

    async def ping(_: HttpCall) -> HttpAnswer:
        return HttpAnswer(body=b'{"health": "OK"}')

    routes = {("GET", "/metrics"): show, ("GET", "/_health/ping"): ping}
    async with answering(routes, address, token, key=_KEY) as url:
        yield url


@asynccontextmanager
async def answering(
    routes: Mapping[tuple[str, str], CallHandler], address: str, token: str, *, key: str
) -> AsyncGenerator[str]:
    """Answer calls with the ManagementToken at the address that the configuration has under `key`
    while inside; the URL. Raises Invalid when that cannot be.
    """
    host, port = parse_address(address, key=key)
    if not token:
        raise Invalid(f"configuration: ManagementToken: it is empty; {key} needs one")
    service = HttpService(routes, check=partial(_check, token=token))
    try:
        opened = await service.open(host, port)
    except OSError as error:
        fault = f"{address!r} cannot be served: {error.strerror}"
        raise Invalid(f"configuration: {key}: {fault}") from error
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{opened}"
    finally:
        await service.close()


def _check(head: HttpHead, *, token: str) -> None:
    """Raises Unauthenticated, Forbidden."""
    kind, _, given = head.get("authorization").partition(" ")
    check_management_token(given.strip() if kind.lower() in ("bearer", "oauth2") else "", token)


def parse_address(address: str, *, key: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises Invalid, naming the key of the configuration."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"configuration: {key}: {address!r}; it must be HOST:PORT")
    return host.strip("[]"), int(port)
