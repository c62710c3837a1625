"""HTTP to servers that tasks name: redirects followed with the same checks, faults sorted.

Faults that may pass (no connection, a cut answer, 408, 425, 429, 5xx) are `PassingFault`, which
names the seconds that the server asked to wait. Others are errors of the tree: they end a transfer.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urljoin

from lading.core.errors import Corrupt, Forbidden, Invalid, Malformed, NotFound, Unavailable
from lading.core.tes.locations import Location, LocationScheme, host_header, parse_location
from lading.core.tes.transfers import retry_after
from lading.net.http_connections import HttpConnections, Sender
from lading.net.outside_way import OutsideNetwork, OutsideWay

# Seconds without a byte of an answer.
TIMEOUT: Final = 60.0
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# Servers whose connections are kept at a time.
_MOST_SERVERS: Final = 16
# Bytes of the text of an error that are read.
_MOST_TEXT: Final = 16 << 10
# Headers that a redirect to another server keeps. Any other header may be a secret: a DRS server
# chooses the names of its headers.
_COMMON: Final = frozenset(
    {
        "user-agent",
        "accept",
        "accept-encoding",
        "range",
        "if-range",
        "content-length",
        "content-type",
    }
)


class PassingFault(Unavailable):
    """A fault that may pass; `asked` is the pause in seconds that the server asked for, or 0."""

    def __init__(self, message: str, asked: float = 0.0) -> None:
        super().__init__(message)
        self.asked = asked


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAnswer:
    """An answer whose body is still being received; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]

    async def read(self, most: int = _MOST_TEXT) -> bytes:
        """The body, of which `most` bytes are read."""
        found = bytearray()
        async for piece in self.pieces:
            found += piece
            if len(found) >= most:
                break
        return bytes(found[:most])


class OutsideHttp:
    """Exchanges with servers outside. Must be used in one task; `async with` closes it.

    `trust` makes the TLS context of the first connection by TLS.
    """

    def __init__(
        self,
        network: OutsideNetwork,
        *,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        timeout: float = TIMEOUT,
    ) -> None:
        self.network = network
        self._trust = trust
        self._tls: ssl.SSLContext | None = None
        self._timeout = timeout
        self._servers: dict[tuple[LocationScheme, str, int], HttpConnections] = {}

    async def __aenter__(self) -> OutsideHttp:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        while self._servers:
            self._servers.popitem()[1].close()

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        location: Location,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        send: Sender | None = None,
        is_redirected: bool = True,
    ) -> AsyncGenerator[OutsideAnswer]:
        """One exchange, behind redirects. Raises PassingFault, Forbidden for a server that may not
        be reached, Invalid for an answer that is no HTTP.
        """
        fields = {"user-agent": "lading", "accept-encoding": "identity", **headers}
        for _ in range(_MOST_REDIRECTS + 1):
            async with AsyncExitStack() as opened:
                try:
                    answer = await opened.enter_async_context(
                        self._server(location).exchange(
                            method,
                            location.path + location.query,
                            fields,
                            body,
                            send=send,
                            timeout=self._timeout,
                        )
                    )
                except OSError as error:
                    reason = str(error) or "no answer in time"
                    raise PassingFault(f"{location.host}: cannot be reached: {reason}") from error
                except Corrupt as error:
                    raise PassingFault(f"{location.host}: {error.message}") from error
                except Malformed as error:
                    raise Invalid(f"{location.host}: {error.message}") from error
                answer_headers = {name.lower(): value for name, value in answer.head.fields}
                status = answer.head.status
                if (
                    not is_redirected
                    or status not in _REDIRECTS
                    or not answer_headers.get("location")
                ):
                    pieces = _pieces(answer.pieces, location.host)
                    yield OutsideAnswer(status=status, headers=answer_headers, pieces=pieces)
                    return
            if method not in ("GET", "HEAD") and status not in (307, 308):
                raise Invalid(f"{location.host}: redirects {method} with {status}")
            target = _redirected(location, answer_headers["location"])
            if (target.host, target.port) != (location.host, location.port):
                fields = {name: value for name, value in fields.items() if name.lower() in _COMMON}
            location = target
        raise Invalid(f"{location.host}: redirects more than {_MOST_REDIRECTS} times")

    def _server(self, location: Location) -> HttpConnections:
        key = (location.scheme, location.host, location.port)
        if key not in self._servers:
            while len(self._servers) >= _MOST_SERVERS:
                self._servers.pop(next(iter(self._servers))).close()
            tls = None
            if location.scheme is LocationScheme.HTTPS:
                tls = self._tls = self._tls or self._trust()
            way = OutsideWay(host=location.host, port=location.port, tls=tls, network=self.network)
            self._servers[key] = HttpConnections(way, host_header(location))
        return self._servers[key]


def _redirected(location: Location, target: str) -> Location:
    base = f"{location.scheme}://{host_header(location)}{location.path}"
    try:
        redirected = parse_location(urljoin(base, target))
    except (Malformed, ValueError):
        raise Invalid(f"{location.host}: redirects to an address that cannot be read") from None
    if redirected.scheme not in (LocationScheme.HTTP, LocationScheme.HTTPS):
        raise Forbidden(f"{location.host}: redirects to another protocol than HTTP")
    if location.scheme is LocationScheme.HTTPS and redirected.scheme is LocationScheme.HTTP:
        raise Forbidden(f"{location.host}: redirects from https to http")
    return replace(redirected, user="", password="")


async def _pieces(pieces: AsyncIterator[bytes], host: str) -> AsyncGenerator[bytes]:
    try:
        async for piece in pieces:
            yield piece
    except (OSError, Corrupt) as error:
        reason = error.message if isinstance(error, Corrupt) else "no data in time"
        raise PassingFault(f"{host}: {reason}") from error


async def check_status(answer: OutsideAnswer, host: str, *good: int) -> None:
    """Raise the error of a status that is none of `good`."""
    if answer.status in good:
        return
    fault = f"{host}: answered {answer.status}"
    if answer.status in _PASSING:
        raise PassingFault(fault, retry_after(answer.headers))
    if answer.status in (401, 403):
        raise Forbidden(f"{fault}: credentials are missing, or do not allow this")
    if answer.status in (404, 410):
        raise NotFound(f"{fault}: there is no such object")
    raise Invalid(fault)
