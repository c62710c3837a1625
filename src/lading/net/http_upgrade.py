"""HTTP requests that switch a connection to another protocol: 101, then plain bytes.

    POST <path>, Connection: upgrade, Upgrade: <protocol>      the parameters are a form
    101, Upgrade: <protocol>                                   any other answer is an error, as JSON
                                                               or text

`core.protocols.http_head` parses the head of the response; h11 would also take the first bytes of
the new protocol from the connection.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from lading.core.errors import LadingError, Unavailable, from_status
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.net.pipes import Pipe, read_head
from lading.net.proxies import Proxy, open_tunnel

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)
"""A protocol of asyncio."""
LIMIT = 1 << 17
"""Bytes that a connection reads ahead."""
# Seconds for the response to an upgrade.
TIMEOUT = 30.0
"""Seconds for a connection to be made, and for an answer to it."""
# Seconds after which the next address of a host is tried as well (RFC 8305, section 5).
_NEXT_ADDRESS = 0.25
# Bytes of an error's text that are read.
_MOST_TEXT = 1 << 16


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a server: a Unix socket, or host and port; with TLS unless `tls` is None, and then
    through `proxy` unless that is None.
    """

    unix_socket: str = ""
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None

    @property
    def name(self) -> str:
        """Name of the server in messages."""
        return self.unix_socket or f"{self.host}:{self.port}"

    async def open(self) -> Pipe:
        """Open a connection. Raises Unavailable."""
        try:
            return await self.connect(asyncio.StreamReader(limit=LIMIT), timeout=TIMEOUT)
        except OSError as error:
            raise Unavailable(
                f"cannot connect to {self.name}: {str(error) or 'no answer in time'}"
            ) from error

    async def connect(self, reader: asyncio.StreamReader, *, timeout: float) -> Pipe:
        """Open a connection that feeds `reader`. Raises OSError, TimeoutError after `timeout`
        seconds, and the errors of `create`.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await self.create(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), timeout=timeout
        )
        return Pipe(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def create(
        self, make_protocol: Callable[[], ProtocolT], *, timeout: float
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Open a connection for a protocol of asyncio. Raises OSError, TimeoutError after `timeout`
        seconds.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            if self.unix_socket:
                return await loop.create_unix_connection(make_protocol, self.unix_socket)
            if self.proxy is not None and self.tls is not None:
                tunnel = await open_tunnel(self.proxy, self.host, self.port)
                return await _secured(tunnel, make_protocol(), self.tls, self.host)
            # The loop of uvloop tries one address after the other, and does not know the option.
            is_quick = isinstance(loop, asyncio.BaseEventLoop)
            more: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS} if is_quick else {}
            return await loop.create_connection(
                make_protocol, self.host, self.port, ssl=self.tls, **more
            )


async def _secured(
    tunnel: asyncio.Transport, protocol: ProtocolT, tls: ssl.SSLContext, host: str
) -> tuple[asyncio.Transport, ProtocolT]:
    """TLS in a tunnel, for a protocol. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(tunnel, protocol, tls, server_hostname=host)
    except BaseException:
        tunnel.abort()
        raise
    if secured is None:
        raise ConnectionResetError("the connection ended before TLS")
    # The loop does that for connections that it makes itself.
    protocol.connection_made(secured)
    return secured, protocol


def trusting(
    authorities: Path | None, *, insecure: bool = False, is_pinned: bool = False
) -> ssl.SSLContext:
    """TLS context that checks certificates with `authorities` (a PEM file; None: those of the
    machine), or, if `insecure`, does not check them. `is_pinned`: the file has the certificate of
    the server, whatever name it is for.
    """
    if is_pinned:
        context = ssl.create_default_context(cafile=str(authorities))
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    if not insecure:
        return (
            _of_machine()
            if authorities is None
            else ssl.create_default_context(cafile=str(authorities))
        )
    # Without the authorities of the machine, which take 20 ms to load.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _of_machine() -> ssl.SSLContext:
    """TLS context with the authorities of this machine: those of its own store, where the package
    truststore is installed and no variable names a file; else those that OpenSSL finds.
    """
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        try:
            from truststore import SSLContext
        except ImportError:
            pass
        else:
            context: ssl.SSLContext = SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            return context
    return ssl.create_default_context()


def parse_url(url: str, tls: ssl.SSLContext) -> Way:
    """The way to `https://HOST[:PORT]/`. Raises Unavailable."""
    host, _, port = url.removeprefix("https://").rstrip("/").rpartition(":")
    if not host:
        host, port = port, "443"
    if not url.startswith("https://") or not port.isdigit():
        raise Unavailable(f"{url[:80]!r}: not https://HOST:PORT")
    return Way(host=host.strip("[]"), port=int(port), tls=tls)


async def switch(
    pipe: Pipe,
    path: str,
    protocol: str,
    *,
    host: str,
    headers: Mapping[str, str],
    form: Mapping[str, str],
    check: Callable[[HttpHead], None] | None = None,
) -> HttpHead:
    """Ask for another protocol on a new connection; return the head of the response of status 101.

    `check` is called first, with answers of any status. Raises the error of the answer's status,
    Unavailable without an answer. After an error the connection is closed.
    """
    body = urlencode(form).encode()
    fields = {
        "Host": host,
        **headers,
        "Connection": "upgrade",
        "Upgrade": protocol,
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
    }
    try:
        pipe.writer.write(HttpHead(f"POST {path} HTTP/1.1", tuple(fields.items())).encode() + body)
        answer = http_head.parse_answer(await read_head(pipe, timeout=TIMEOUT))
        if check is not None:
            check(answer)
        if answer.status != 101:
            raise from_status(answer.status, await _text(pipe, answer))
        if answer.get("upgrade").lower() != protocol:
            raise Unavailable("the server switched to another protocol than was asked for")
    except OSError as error:
        await pipe.close()
        raise Unavailable(f"the connection broke: {error}") from error
    except LadingError:
        await pipe.close()
        raise
    return answer


async def _text(pipe: Pipe, answer: HttpHead) -> str:
    """The text of an error."""
    length = answer.get("content-length")
    try:
        async with asyncio.timeout(TIMEOUT):
            wanted = min(int(length), _MOST_TEXT) if length.isdigit() else _MOST_TEXT
            body = await pipe.reader.readexactly(wanted)
    except asyncio.IncompleteReadError as error:
        body = error.partial
    except TimeoutError:
        body = b""
    try:
        return "; ".join(msgspec.json.decode(body, type=_Errors).errors)
    except (msgspec.DecodeError, RecursionError):
        return body.decode(errors="replace").strip() or f"the server answered {answer.start}"


class _Errors(msgspec.Struct):
    errors: list[str]
