"""Connections through a proxy, by the variables HTTPS_PROXY, ALL_PROXY and NO_PROXY.

The proxy opens a tunnel to the server (CONNECT, RFC 9110, section 9.3.6), in which TLS is spoken as
without a proxy: it reads neither tokens nor content.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from lading.core.errors import Invalid, Malformed
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.pipes import receive_head

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)
_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_EXCEPTIONS: Final = ("NO_PROXY", "no_proxy")
_NEAR: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORT: Final = 8080
_OK: Final = 200


class Proxy(msgspec.Struct, frozen=True):
    """A proxy: its address, and the value of the header Proxy-Authorization, "" for none."""

    host: str
    port: int
    authorization: str = ""


def proxy_for(environ: Mapping[str, str], host: str, port: int) -> Proxy | None:
    """The proxy that variables name for a server; None for a direct connection. This machine is
    always reached directly. Raises Invalid for a proxy that is not `http://HOST:PORT`.
    """
    address = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    if not address or host in _NEAR or _is_excepted(environ, host, port):
        return None
    url = urlsplit(address if "://" in address else f"http://{address}")
    try:
        number = url.port or _PORT
    except ValueError:
        number = 0
    if url.scheme != "http" or not url.hostname or not number:
        # Without its text, which may have a password.
        raise Invalid("HTTPS_PROXY: must be http://[USER:PASSWORD@]HOST:PORT")
    authorization = ""
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(url.hostname, number, authorization)


def _is_excepted(environ: Mapping[str, str], host: str, port: int) -> bool:
    """Whether NO_PROXY names the server: `*`, a host, or a domain for all its hosts; each with or
    without a port.
    """
    names = next((environ[name] for name in _EXCEPTIONS if environ.get(name)), "")
    for entry in names.lower().replace(",", " ").split():
        name, colon, number = entry.rpartition(":")
        if not (colon and number.isdigit() and name.count(":") == 0):
            name, number = entry, ""
        domain = name.removeprefix("*").lstrip(".").strip("[]")
        is_named = entry == "*" or host.lower() == domain or host.lower().endswith(f".{domain}")
        if domain and is_named and number in ("", str(port)):
            return True
        if entry == "*":
            return True
    return False


async def open_tunnel(proxy: Proxy, host: str, port: int) -> asyncio.Transport:
    """A connection to the server through the proxy, before TLS. Raises OSError, also for a proxy
    that refuses.
    """
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        fields = [("Host", target)]
        if proxy.authorization:
            fields.append(("Proxy-Authorization", proxy.authorization))
        writer.write(HttpHead(f"CONNECT {target} HTTP/1.1", tuple(fields)).encode())
        try:
            head = http_head.parse_answer(await receive_head(reader))
        except (Malformed, asyncio.IncompleteReadError) as error:
            raise ConnectionRefusedError(
                f"the proxy {proxy.host}:{proxy.port} gives no answer of HTTP"
            ) from error
        if head.status != _OK:
            raise ConnectionAbortedError(
                f"the proxy {proxy.host}:{proxy.port} refuses with status {head.status}"
            )
    except BaseException:
        writer.transport.abort()
        raise
    transport = writer.transport
    assert isinstance(transport, asyncio.Transport)
    return transport
